import pytest

from myxtts.errors import ConfigError
from myxtts.training.optimizer import frozen_paths

PATHS = [
    f"xtts/{name}"
    for name in (
        "text_encoder/symbols/embeddings",
        "text_encoder/block_0/bias",
        "decoder/block_1/expand/kernel",
        "decoder/block_1/expand/bias",
        "decoder/block_10/bias",
        "decoder/mel/kernel",
    )
]
TEXT, DECODER = set(PATHS[:2]), set(PATHS[2:])


@pytest.mark.parametrize(
    ("freeze", "frozen"),
    [
        (None, set()),
        ("", set()),
        ("text_encoder", TEXT),
        ("decoder", DECODER),
        ("decoder.block_1", set(PATHS[2:4])),
        ("decoder/block_*", set(PATHS[2:5])),
        ("text_encoder/symbols, decoder.block_1.expand.bias", {PATHS[0], PATHS[3]}),
        ("*bias", {PATHS[1], PATHS[3], PATHS[4]}),
        ("xtts/decoder/mel/kernel,", {PATHS[5]}),
    ],
)
def test_a_name_stands_for_all_below_it(freeze, frozen):
    assert frozen_paths(freeze, PATHS) == frozen


@pytest.mark.parametrize(
    ("freeze", "line"),
    [
        ("text_encoder, decodr", "is called 'decodr'; did you mean 'decoder'"),
        ("decoder.blok_1", "is called 'decoder/blok_1'; did you mean 'decoder/block_1'"),
        ("speech", "is called 'speech'; its parts are text_encoder, decoder"),
        ("text_encoder, decoder", "found 'text_encoder, decoder', which leaves nothing to train"),
    ],
)
def test_names_that_cannot_be(freeze, line):
    with pytest.raises(ConfigError, match=r"^training\.freeze: ") as error:
        frozen_paths(freeze, PATHS)
    assert line in str(error.value)
