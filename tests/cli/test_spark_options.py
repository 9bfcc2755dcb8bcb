"""Settings of Spark on the command line."""

import pytest

from tornproof.cli.spark_options import settings_of
from tornproof.impl.errors import UsageError


def test_settings_are_keys_and_values_of_which_the_last_counts() -> None:
    given = ["spark.driver.memory=8g", "spark.x=a=b", "spark.driver.memory=2g", "spark.empty="]
    assert settings_of(given) == {"spark.driver.memory": "2g", "spark.x": "a=b", "spark.empty": ""}
    assert settings_of(None) == {}


@pytest.mark.parametrize("text", ["", "spark.x", "memory=1g", "=1"])
def test_what_is_no_setting_is_rejected(text: str) -> None:
    with pytest.raises(UsageError, match=r"a setting is spark\.KEY=VALUE"):
        settings_of([text])
