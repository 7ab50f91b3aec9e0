"""Package list: everything under gazeattn/, and conf/ as gazeattn.conf.

The Hydra configuration lies at the top of the repository, where people edit it, and travels inside
the wheel as ``gazeattn/conf``, so that the command works from any folder.
"""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["gazeattn", "gazeattn.*"]), "gazeattn.conf"],
    package_dir={"gazeattn.conf": "conf"},
)
