"""Public names that are imported at first use."""

import subprocess
import sys
from importlib import import_module
from types import ModuleType

import pytest

import ostler.bridge
import ostler.pool

PACKAGES = [ostler.bridge, ostler.pool]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_that_of_its_module(package: ModuleType) -> None:
    for name, home in package.HOMES.items():
        assert getattr(package, name) is getattr(import_module(f"{package.__name__}.{home}"), name)
    assert set(package.HOMES) <= set(dir(package))
    assert "__doc__" in dir(package)


@pytest.mark.parametrize("package", PACKAGES)
def test_an_unknown_name_is_an_attribute_error_that_names_both(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'Nothing'"):
        _ = package.Nothing


@pytest.mark.parametrize("package", PACKAGES)
def test_the_import_of_a_package_loads_none_of_its_modules(package: ModuleType) -> None:
    name = package.__name__
    loaded = f"import sys, {name}\nprint([each for each in sys.modules if each.startswith('{name}.')])"
    run = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
