(function () {
  'use strict';
  var data = JSON.parse(document.getElementById('data').textContent);
  function by(id) { return document.getElementById(id); }
  function put(id, text) { var e = by(id); if (e) e.textContent = text; }
  function make(tag, name, text) {
    var e = document.createElement(tag);
    if (name) e.className = name;
    if (text !== undefined) e.textContent = text;
    return e;
  }
  document.querySelectorAll('.needs-script').forEach(function (e) { e.hidden = false; });
  document.querySelectorAll('form').forEach(function (f) {
    f.addEventListener('submit', function (event) { event.preventDefault(); });
  });

  // the method table
  var measure = by('measure'), metric = by('metric');
  function mark(row, name, left) {
    if (left === null || left === undefined) return;
    var i = make('i', name);
    i.style.left = left + '%';
    row.appendChild(i);
    return i;
  }
  function withNote(td, row, key) {
    var n = row.notes[key];
    if (!n) return td;
    var sup = make('sup'), a = make('a', '', String(n));
    a.href = '#note-' + n;
    a.setAttribute('aria-label', 'note ' + n);
    sup.appendChild(a);
    td.appendChild(sup);
    return td;
  }
  function methodRow(row, table, partial) {
    var tr = make('tr', row.kind), th = make('th', '', row.method);
    th.scope = 'row';
    th.title = row.code;
    if (row.kind === 'baseline') {
      th.appendChild(document.createTextNode(' '));
      th.appendChild(make('span', 'tag', 'baseline'));
    }
    tr.appendChild(th);
    var value = withNote(make('td', 'n value', row.value), row, 'value');
    if (row.interval) {
      value.appendChild(document.createTextNode(' '));
      value.appendChild(make('span', 'interval', row.interval));
    }
    tr.appendChild(value);
    var plot = make('td', 'plot'), box = make('div');
    plot.setAttribute('aria-hidden', 'true');
    mark(box, 'zero', table.zero);
    mark(box, 'ceiling', row.plot.ceiling);
    if (row.plot.low !== null && row.plot.high !== null) {
      mark(box, 'bar', row.plot.low).style.right = (100 - row.plot.high) + '%';
    }
    mark(box, 'dot', row.plot.value);
    plot.appendChild(box);
    tr.appendChild(plot);
    ['relative', 'p', 'q'].concat(partial ? ['partial'] : [], ['chance', 'trials']).forEach(function (key) {
      tr.appendChild(withNote(make('td', 'n', row[key]), row, key));
    });
    return tr;
  }
  function showMethods() {
    var table = data.tables[measure.value + '|' + metric.value];
    var body = by('method-rows'), notes = by('method-notes');
    if (!table) return;
    body.replaceChildren.apply(body, table.rows.map(function (row) {
      return methodRow(row, table, body.dataset.partial === '1');
    }));
    notes.replaceChildren.apply(notes, table.notes.map(function (text, i) {
      var li = make('li', '', text);
      li.id = 'note-' + (i + 1);
      return li;
    }));
    put('axis-low', table.axis[0]);
    put('axis-high', table.axis[1]);
    put('method-caption', table.caption);
    put('measure-note', data.measures[measure.value] || '');
  }
  if (measure) {
    measure.addEventListener('change', showMethods);
    metric.addEventListener('change', showMethods);
  }

  // the text
  var choice = by('text-choice'), human = by('human-choice'), model = by('model-choice');
  function fill(select, options, wanted) {
    select.replaceChildren.apply(select, Object.keys(options).map(function (name) {
      var o = make('option', '', options[name].label + (options[name].kind === 'baseline' ? ' (baseline)' : ''));
      o.value = name;
      o.selected = name === wanted;
      return o;
    }));
  }
  function numbers(i) {
    var text = data.texts[choice.value], h = text.human[human.value], m = text.model[model.value];
    function said(p) { return !p || p.levels[i] === '-' ? 'no score' : p.values[i]; }
    return { word: text.words[i], human: (h ? h.label + ' ' : '') + said(h), model: (m ? m.label + ' ' : '') + said(m) };
  }
  function focusWord(i) {
    document.querySelectorAll('.w.on').forEach(function (e) { e.classList.remove('on'); });
    if (i === null) return;
    document.querySelectorAll('.w[data-i="' + i + '"]').forEach(function (e) { e.classList.add('on'); });
    var n = numbers(i), out = by('readout'), word = make('b'), bdi = make('bdi', '', n.word);
    word.appendChild(bdi);
    out.classList.add('live');
    out.replaceChildren(word, document.createTextNode(' (word ' + (i + 1) + '): people, ' + n.human + '; model, ' + n.model));
  }
  function showSide(side, letter, profile, words) {
    var box = by(side + '-words'), parts = [];
    words.forEach(function (word, i) {
      var level = profile ? profile.levels[i] : '-';
      var span = make('span', 'w ' + letter + (level === '-' ? 'x' : level));
      span.dataset.i = i;
      span.title = level === '-' ? 'no score' : profile.values[i];
      if (i === 0) span.tabIndex = 0;
      span.appendChild(make('bdi', '', word));
      parts.push(span, document.createTextNode(' '));
    });
    box.replaceChildren.apply(box, parts);
    put(side + '-name', (side === 'human' ? 'People: ' : 'Model: ') + (profile ? profile.label : '–'));
    put(side + '-low', profile ? profile.ends[0] : '–');
    put(side + '-high', profile ? profile.ends[1] : '–');
    put(side + '-missing', profile ? profile.missing : words.length);
    put(side + '-column', profile ? profile.label : '–');
  }
  function showText() {
    var text = data.texts[choice.value], h = text.human[human.value], m = text.model[model.value];
    showSide('human', 'h', h, text.words);
    showSide('model', 'm', m, text.words);
    var rows = by('word-rows');
    rows.replaceChildren.apply(rows, text.words.map(function (word, i) {
      var tr = make('tr'), th = make('th', '', word);
      th.scope = 'row';
      th.dir = 'auto';
      tr.append(make('td', 'n', i + 1), th, make('td', 'n', h ? h.values[i] : '–'), make('td', 'n', m ? m.values[i] : '–'));
      return tr;
    }));
    var a = text.agreement[human.value + '|' + model.value];
    put('text-agreement', a ? data.metric + ' on this text: ' + a + '.' : '');
    put('readout', data.hint);
  }
  if (choice) {
    data.hint = by('readout').textContent;
    fill(human, data.texts[0].human, data.human);
    fill(model, data.texts[0].model, data.model);
    choice.addEventListener('change', function () {
      var text = data.texts[choice.value];
      fill(human, text.human, human.value);
      fill(model, text.model, model.value);
      showText();
    });
    human.addEventListener('change', showText);
    model.addEventListener('change', showText);
    document.querySelectorAll('.words').forEach(function (box) {
      function at(event) {
        var e = event.target.closest ? event.target.closest('.w') : null;
        return e ? Number(e.dataset.i) : null;
      }
      box.addEventListener('mouseover', function (event) { var i = at(event); if (i !== null) focusWord(i); });
      box.addEventListener('click', function (event) { var i = at(event); if (i !== null) focusWord(i); });
      box.addEventListener('focusin', function (event) { var i = at(event); if (i !== null) focusWord(i); });
      box.addEventListener('keydown', function (event) {
        var step = { ArrowRight: 1, ArrowLeft: -1 }[event.key], i = at(event);
        if (!step || i === null) return;
        var next = box.querySelector('.w[data-i="' + (i + step) + '"]');
        if (!next) return;
        event.preventDefault();
        box.querySelectorAll('[tabindex]').forEach(function (e) { e.removeAttribute('tabindex'); });
        next.tabIndex = 0;
        next.focus();
      });
    });
  }

  // the paths
  var path = by('path-choice');
  if (path) {
    path.addEventListener('change', function () {
      document.querySelectorAll('.path').forEach(function (e) { e.hidden = e.id !== path.value; });
    });
  }
})();
