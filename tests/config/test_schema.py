import pytest

from myxtts.config.config import DataConfig
from myxtts.config.schema import Section, frozen_settings, setting
from myxtts.errors import ConfigError


@frozen_settings
class Kitchen(Section):
    """A section that no run has."""

    section_name = "kitchen"
    cups: int = setting(2, "Cups.", bounds=(1, 12))
    litres: float = setting(0.5, "Litres.", bounds=(0, None))
    milk: str | None = setting(None, "Milk; null: none.", choices=("cow", "oat"))
    is_open: bool = setting(True, "Whether it is open.")


def test_sections_are_frozen():
    kitchen = Kitchen()
    with pytest.raises(ConfigError) as error:
        kitchen.cups = 1  # type: ignore[misc]
    assert str(error.value) == (
        "kitchen.cups: settings cannot be assigned; write config = config.with_(cups=1)"
    )
    assert kitchen == Kitchen()


def test_numbers_as_yaml_writes_them():
    assert Kitchen(litres="1e-4").litres == 1e-4  # YAML 1.1 reads text here
    litres = Kitchen(litres=2).litres
    assert (litres, type(litres)) == (2.0, float)


def test_null_is_a_value_only_where_it_is_allowed():
    assert Kitchen(milk=None).milk is None
    with pytest.raises(ConfigError, match=r"kitchen\.cups: found None \(NoneType\), expected int"):
        Kitchen(cups=None)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"cups": "many"}, "kitchen.cups: found 'many' (str), expected int"),
        ({"cups": True}, "kitchen.cups: found True (bool), expected int"),
        ({"is_open": 1}, "kitchen.is_open: found 1 (int), expected bool"),
        ({"milk": 2}, "kitchen.milk: found 2 (int), expected str or null"),
        ({"cups": 0}, "kitchen.cups: found 0, allowed: 1 or more"),
        ({"cups": 13}, "kitchen.cups: found 13, allowed: 12 or less"),
        ({"litres": float("nan")}, "kitchen.litres: found nan, expected a finite number"),
        ({"milk": "oats"}, "kitchen.milk: found 'oats', allowed: cow, oat; did you mean 'oat'?"),
    ],
)
def test_wrong_values_are_named(settings, line):
    with pytest.raises(ConfigError) as error:
        Kitchen(**settings)
    assert str(error.value) == line


def test_an_unknown_setting_of_a_section_names_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'buffer_size'"):
        DataConfig(pipeline_buffer_size=50)
