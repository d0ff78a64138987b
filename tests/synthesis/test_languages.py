"""One model, two languages, and voices that cross from one to the other."""

import numpy as np
import pytest

from myxtts.data.corpus import open_corpus
from myxtts.data.demo import make_demo_corpus
from myxtts.errors import DataError
from myxtts.models.speech_options import SpeechOptions
from myxtts.synthesis.tts import TTS
from myxtts.training.trainer import XTTSTrainer

pytestmark = pytest.mark.training

OPTIONS = SpeechOptions(steps=2)


@pytest.fixture(scope="module")
def bilingual_corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bilingual") / "corpus"
    make_demo_corpus(folder, utterances=16, speakers=1, languages=("en", "fa"))
    return folder


@pytest.fixture(scope="module")
def tts(bilingual_corpus, miniature, tmp_path_factory) -> TTS:
    run_dir = tmp_path_factory.mktemp("runs") / "bilingual"
    config = miniature(train_data=str(bilingual_corpus), learning_rate=0.02, max_steps=3)
    XTTSTrainer(config, open_corpus(config), run_dir).fit()
    return TTS(run_dir)


def test_one_run_speaks_both_languages_in_either_voice(tts, bilingual_corpus):
    assert tts.languages == ("en", "fa")
    texts = {"en": "Good morning, my friend.", "fa": "صبح بخیر دوست من."}
    for heard_in in texts:
        reference = next((bilingual_corpus / "wavs").glob(f"{heard_in}-*.wav"))
        for language, text in texts.items():
            spoken = tts.tts(text, reference, language, options=OPTIONS)
            assert spoken.size > 0.2 * tts.sample_rate_hz
            assert np.isfinite(spoken).all()


@pytest.mark.parametrize(
    ("text", "code", "tags"),
    [
        ("Good morning. My friend!", "en", ["EN", "en_US", "en-us"]),
        ("صبح بخیر. دوستِ من!", "fa", ["FA", "fa-IR", "fa_IR"]),
    ],
)
def test_a_language_sounds_the_same_however_its_tag_is_written(
    tts, bilingual_corpus, text, code, tags
):
    voice = tts.voice(next((bilingual_corpus / "wavs").glob("en-*.wav")))
    expected = tts.tts(text, voice, code, options=OPTIONS)
    for tag in tags:
        np.testing.assert_array_equal(tts.tts(text, voice, tag, options=OPTIONS), expected)


def test_what_is_not_a_tag_is_named_with_the_nearest(tts, bilingual_corpus):
    reference = next((bilingual_corpus / "wavs").glob("en-*.wav"))
    with pytest.raises(DataError, match=r"'farsi' is not .*: en, fa; did you mean 'fa'\?"):
        tts.tts("سلام", reference, "farsi")


def test_the_language_is_heard_beside_the_text(tts, bilingual_corpus):
    """The same tokens sound differently in the two languages once both were trained on."""
    reference = next((bilingual_corpus / "wavs").glob("en-*.wav"))
    voice = tts.voice(reference)
    tokens = tts.tokenizer.encode("Good morning.", "en")
    english, persian = (
        tts.sampler.mels([tokens], [tts.tokenizer.language_id(language)], voice, OPTIONS)[0]
        for language in ("en", "fa")
    )
    shortest = min(len(english), len(persian))
    assert not np.allclose(english[:shortest], persian[:shortest], atol=1e-3)
