'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const svg = document.getElementById('stage');
  const dots = [...svg.querySelectorAll('.fix')];
  const lines = [...svg.querySelectorAll('.step')];
  const slider = document.getElementById('time');
  const button = document.getElementById('play');
  const speed = document.getElementById('speed');
  const shown = document.getElementById('shown');
  const end = data.end;
  let now = 0;
  let last = null;

  const draw = () => {
    let current = -1;
    data.start.forEach((start, i) => {
      if (start <= now) current = i;
      dots[i].classList.toggle('seen', start <= now);
      if (i) lines[i - 1].classList.toggle('seen', start <= now);
    });
    dots.forEach((dot, i) => dot.classList.toggle('now', i === current));
    slider.value = now;
    const at = `${(now / 1000).toFixed(1)} of ${(end / 1000).toFixed(1)} s`;
    shown.textContent = current < 0 ? at : `${at}, fixation ${current + 1} of ${dots.length}`;
  };
  const stop = () => { last = null; button.textContent = 'Play'; };
  const tick = (stamp) => {
    if (last === null) return;
    now = Math.min(end, now + (stamp - last) * Number(speed.value));
    last = stamp;
    draw();
    if (now >= end) stop(); else requestAnimationFrame(tick);
  };
  button.addEventListener('click', () => {
    if (last !== null) { stop(); return; }
    if (now >= end) now = 0;
    button.textContent = 'Pause';
    requestAnimationFrame((stamp) => { last = stamp; tick(stamp); });
  });
  slider.addEventListener('input', () => { now = Number(slider.value); draw(); });
  slider.max = end;
  document.getElementById('controls').hidden = false;
  draw();
})();
