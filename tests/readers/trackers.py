"""Small made-up exports in the layout of each vendor, for the tests of the readers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

TOBII = (
    "Recording timestamp [μs]",
    "Sensor",
    "Participant name",
    "Recording name",
    "Event",
    "Gaze point X [DACS px]",
    "Gaze point Y [DACS px]",
    "Gaze point left X [DACS px]",
    "Gaze point left Y [DACS px]",
    "Pupil diameter left [mm]",
    "Validity left",
    "Validity right",
    "Eye movement type",
    "Gaze event duration [ms]",
    "Eye movement type index",
    "Fixation point X [DACS px]",
    "Fixation point Y [DACS px]",
    "Presented Stimulus name",
)


def table(columns: tuple[str, ...], rows: list[dict[str, Any]], separator: str = "\t") -> str:
    lines = [separator.join(columns)]
    lines += [separator.join(str(r.get(c, "")) for c in columns) for r in rows]
    return "\n".join(lines) + "\n"


def tobii_rows() -> list[dict[str, Any]]:
    """Return 4 samples at 100 Hz: fixation, fixation, saccade, fixation; one event before."""
    rows: list[dict[str, Any]] = [
        {TOBII[0]: 0, "Participant name": "P01", "Recording name": "R1", "Event": "RecordingStart"}
    ]
    movements: list[tuple[int, str, int, object]] = [
        (100, "Fixation", 1, 101.5),
        (102, "Fixation", 1, 101.5),
        (200, "Saccade", 1, ""),
        (300, "Fixation", 2, 300),
    ]
    for n, (x, kind, index, fx) in enumerate(movements):
        rows.append(
            {
                TOBII[0]: (n + 1) * 10000,
                "Sensor": "Eye Tracker",
                "Participant name": "P01",
                "Recording name": "R1",
                "Gaze point X [DACS px]": x,
                "Gaze point Y [DACS px]": 50,
                "Gaze point left X [DACS px]": x + 1,
                "Gaze point left Y [DACS px]": 51,
                "Pupil diameter left [mm]": "3.52",
                "Validity left": "Valid",
                "Validity right": "Valid",
                "Eye movement type": kind,
                "Gaze event duration [ms]": 20 if index == 1 and kind == "Fixation" else 10,
                "Eye movement type index": index,
                "Fixation point X [DACS px]": fx,
                "Fixation point Y [DACS px]": 50 if fx != "" else "",
                "Presented Stimulus name": "page",
            }
        )
    return rows


def tobii() -> str:
    return table(TOBII, tobii_rows())


CORE_GAZE = """gaze_timestamp,world_index,confidence,norm_pos_x,norm_pos_y,base_data
100.00,0,0.9,0.5,0.75,1-0
100.01,0,0.95,0.25,1.0,1-1
100.02,1,0.2,0.25,1.0,1-2
"""
CORE_FIXATIONS = """id,start_timestamp,duration,start_frame_index,end_frame_index,\
norm_pos_x,norm_pos_y,dispersion,confidence,method
1,100.00,150.5,0,5,0.5,0.75,1.2,0.9,2d gaze
2,100.20,200.0,6,9,0.1,0.2,1.1,0.9,2d gaze
"""
CORE_BLINKS = """id,start_timestamp,duration,end_timestamp,start_frame_index,index,\
end_frame_index,confidence,filter_response
1,101.0,0.15,101.15,30,32,34,0.7,0.5
"""
SURFACE_GAZE = """world_timestamp,world_index,gaze_timestamp,x_norm,y_norm,x_scaled,y_scaled,\
on_surf,confidence
100.0,0,100.00,0.5,0.75,0.5,0.75,True,0.9
100.0,0,100.01,1.5,0.75,1.5,0.75,False,0.9
"""
SURFACE_FIXATIONS = """world_timestamp,world_index,fixation_id,start_timestamp,duration,\
dispersion,norm_pos_x,norm_pos_y,x_scaled,y_scaled,on_surf
100.0,0,1,100.00,150.5,1.2,0.5,0.75,0.5,0.75,True
100.1,1,1,100.00,150.5,1.2,0.5,0.75,0.5,0.75,True
100.3,2,2,100.30,99.0,1.2,0.25,0.5,0.5,0.75,True
"""
NEON_GAZE = """section id,recording id,timestamp [ns],gaze x [px],gaze y [px],worn,fixation id,\
blink id,azimuth [deg],elevation [deg]
s1,r1,1700000000000000000,800.5,600.25,True,1,,0.1,0.2
s1,r1,1700000000005000000,801.5,600.25,True,1,,0.1,0.2
s1,r1,1700000000010000000,900.0,610.00,False,,1,0.1,0.2
"""
NEON_FIXATIONS = """section id,recording id,fixation id,start timestamp [ns],end timestamp [ns],\
duration [ms],fixation x [px],fixation y [px],azimuth [deg],elevation [deg]
s1,r1,1,1700000000000000000,1700000000150000000,150,800.9,600.5,0.1,0.2
s1,r1,2,1700000000200000000,1700000000300000000,100,900.9,700.5,0.1,0.2
"""
NEON_SACCADES = """section id,recording id,saccade id,start timestamp [ns],end timestamp [ns],\
duration [ms],amplitude [px],amplitude [deg],mean velocity [px/s],peak velocity [px/s]
s1,r1,1,1700000000150000000,1700000000200000000,50,141.4,9.5,2000,3000
"""
NEON_BLINKS = """section id,recording id,blink id,start timestamp [ns],end timestamp [ns],\
duration [ms]
s1,r1,1,1700000000400000000,1700000000520000000,120
"""

GAZEPOINT_COLUMNS = (
    "MEDIA_ID,MEDIA_NAME,CNT,TIME(2021/01/01 12:00:00.000),TIMETICK(f=10000000),"
    "FPOGX,FPOGY,FPOGS,FPOGD,FPOGID,FPOGV,BPOGX,BPOGY,BPOGV,LPCX,LPCY,LPD,LPS,LPV,"
    "RPCX,RPCY,RPD,RPS,RPV,LPMM,LPMMV,RPMM,RPMMV,"
)
GAZEPOINT = (
    GAZEPOINT_COLUMNS
    + """
0,page,1,0.000,1,0.5,0.25,0.000,0.000,1,1,0.5,0.25,1,0.4,0.5,18,1,1,0.6,0.5,18,1,1,3.5,1,3.6,1,
0,page,2,0.016,2,0.5,0.25,0.000,0.016,1,1,0.5,0.25,1,0.4,0.5,18,1,1,0.6,0.5,18,1,1,3.5,1,3.6,1,
0,page,3,0.032,3,0.5,0.25,0.000,0.032,1,0,0.9,0.90,0,0.4,0.5,18,1,1,0.6,0.5,18,1,1,0.0,0,3.6,1,
1,photo,4,0.048,4,0.1,1.0,0.048,0.016,2,1,0.1,1.00,1,0.4,0.5,18,1,1,0.6,0.5,18,1,1,3.5,1,3.6,1,
"""
)
GAZEPOINT_FIXATIONS = (
    GAZEPOINT_COLUMNS
    + """
0,page,3,0.032,3,0.5,0.25,0.000,0.300,1,1,0.9,0.90,0,0.4,0.5,18,1,1,0.6,0.5,18,1,1,0.0,0,3.6,1,
1,photo,4,0.348,4,0.1,0.5,0.316,0.200,2,1,0.1,1.00,1,0.4,0.5,18,1,1,0.6,0.5,18,1,1,3.5,1,3.6,1,
"""
)

SMI_HEADER = """## [BeGaze]
## Converted from:\tC:\\data\\P01.idf
## Date:\t01.02.2020 10:00:00
## Version:\tBeGaze 3.7.42
## Sample Rate:\t500
## [Run]
## Subject:\tP01
## [Calibration]
## Calibration Area:\t1680\t1050
## [Geometry]
## Stimulus Dimension [mm]:\t474\t297
##
"""
SMI = SMI_HEADER + (
    "Time\tType\tTrial\tL POR X [px]\tL POR Y [px]\tL Dia X [px]\tL Validity\tL Event Info\t"
    "Stimulus\n"
    "1000000\tMSG\t1\t# Message: page.jpg\n"
    "1000000\tSMP\t1\t850.71\t717.53\t14.5\t1\tFixation\tpage.jpg\n"
    "1002000\tSMP\t1\t0.00\t0.00\t0\t1\tBlink\tpage.jpg\n"
    "1004000\tSMP\t1\t860.00\t700.00\t14.0\t0\tFixation\tpage.jpg\n"
    '1005000\tMSG\t2\t# Message: a "quoted\tMSG\ttext\n'
    "1006000\tSMP\t2\t1680.00\t700.00\t14.0\t1\tSaccade\tphoto.jpg\n"
)
SMI_EVENTS = """[BeGaze]
Converted from:\tC:\\data\\P01.idf
Sample Rate:\t500
Subject:\tP01

Table Header for Fixations:
Event Type\tTrial\tNumber\tStart\tEnd\tDuration\tLocation X\tLocation Y\tDispersion X\t\
Dispersion Y\tPlane\tAvg. Pupil Size X\tAvg. Pupil Size Y

Table Header for Saccades:
Event Type\tTrial\tNumber\tStart\tEnd\tDuration\tStart Loc.X\tStart Loc.Y\tEnd Loc.X\t\
End Loc.Y\tAmplitude\tPeak Speed\tPeak Speed At\tAverage Speed\tPeak Accel.\tPeak Decel.\t\
Average Accel.

Table Header for Blinks:
Event Type\tTrial\tNumber\tStart\tEnd\tDuration

Table Header for User Events:
Event Type\tTrial\tNumber\tStart\tDescription

UserEvent\t1\t1\t1000000\t# Message: page.jpg
Fixation L\t1\t1\t1000000\t1200000\t200000\t850.5\t700.25\t10\t12\t-1\t14.5\t14.5
Fixation R\t1\t1\t1000000\t1200000\t200000\t852.5\t701.25\t10\t12\t-1\t14.5\t14.5
Saccade L\t1\t1\t1200000\t1240000\t40000\t850\t700\t950\t700\t3.2\t180\t0.5\t100\t1\t1\t1
Blink L\t1\t1\t1300000\t1400000\t100000
Fixation L\t1\t2\t1400000\t1500000\t100000\t950.5\t700.25\t10\t12\t-1\t14.5\t14.5
"""
SMI_STATISTICS = (
    "Stimulus\tParticipant\tEye L/R\tCategory\tIndex\tEvent Start Trial Time [ms]\t"
    "Event End Trial Time [ms]\tEvent Duration [ms]\tFixation Position X [px]\t"
    "Fixation Position Y [px]\tSaccade Amplitude [°]\tAOI Name\n"
    "page.jpg\tP01\tLeft\tFixation\t1\t10.5\t210.5\t200.0\t850.5\t700.25\t-\tword 1\n"
    "page.jpg\tP01\tLeft\tSaccade\t1\t210.5\t250.5\t40.0\t-\t-\t3.25\t-\n"
    "page.jpg\tP01\tLeft\tBlink\t1\t260.0\t360.0\t100.0\t-\t-\t-\t-\n"
    "photo.jpg\tP01\tLeft\tVisual Intake\t1\t5.0\t105.0\t100.0\t-\t-\t-\tWhite Space\n"
    "photo.jpg\tP01\tLeft\tSeparator\t-\t-\t-\t-\t-\t-\t-\t-\n"
)

EXAMPLES: dict[str, tuple[str, str]] = {
    "tobii": ("P01.tsv", tobii()),
    "core gaze": ("gaze_positions.csv", CORE_GAZE),
    "core fixations": ("fixations.csv", CORE_FIXATIONS),
    "core blinks": ("blinks.csv", CORE_BLINKS),
    "surface gaze": ("gaze_positions_on_surface_Page.csv", SURFACE_GAZE),
    "surface fixations": ("fixations_on_surface_Page.csv", SURFACE_FIXATIONS),
    "neon gaze": ("gaze.csv", NEON_GAZE),
    "neon fixations": ("fixations.csv", NEON_FIXATIONS),
    "neon saccades": ("saccades.csv", NEON_SACCADES),
    "neon blinks": ("blinks.csv", NEON_BLINKS),
    "gazepoint": ("User 0_all_gaze.csv", GAZEPOINT),
    "gazepoint fixations": ("User 0_fixations.csv", GAZEPOINT_FIXATIONS),
    "smi": ("P01_samples.txt", SMI),
    "smi events": ("P01_events.txt", SMI_EVENTS),
    "smi statistics": ("statistics.txt", SMI_STATISTICS),
}
"""Kind to file name and content."""


def write(folder: Path, kind: str, content: str | None = None, encoding: str = "utf-8") -> Path:
    name, text = EXAMPLES[kind]
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_bytes((text if content is None else content).encode(encoding))
    return path
