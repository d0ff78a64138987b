"""Languages and varieties that espeak-ng supports, by tag.

A table rather than a library call: which tags mean the same language is part of a run's vocabulary
and must not depend on the installed version. Nothing is loaded.
"""

from __future__ import annotations

_NAMED_BY_THEIR_TAG = """
    af am an ar as az ba be bg bn bpy bs ca ca-ba ca-nw ca-va chr cmn cmn-latn-pinyin cs cv cy da
    de el en-029 en-gb-scotland en-gb-x-gbclan en-gb-x-gbcwmd en-gb-x-rp en-shaw en-us en-us-nyc eo
    es es-419 et eu fa fa-latn fi fo fr fr-be fr-ch ga gd gn grc gu hak haw he hi hr ht hu hy hyw
    ia id io is it ja jbo ka kaa kk kl kn ko kok ku ky la lb lfn lt ltg lv mi mk ml mr ms mt mto my
    nb nci ne nl nog om or pa pap piqd pl pt pt-br py qdb qu quc qya ro ru ru-cl ru-lv sd shn si
    sjn sk sl smj sq sr sv sw ta te th ti tk tn tr tt ug uk ur uz vi vi-vn-x-central vi-vn-x-south
    xex yue yue-latn-jyutping
"""
VOICES = {tag: tag for tag in _NAMED_BY_THEIR_TAG.split()} | {
    "en-gb": "en",
    "no": "nb",
    "zh": "cmn",
}

# Regions without a voice that do not sound like the language's main variety.
_REGIONS = {
    "en-gb": "au nz uk za",
    "es-419": "ar bo cl co cr cu do ec gt hn mx ni pa pe pr py sv us uy ve",
}
SPOKEN_LIKE = {
    f"{variety.partition('-')[0]}-{region}": variety
    for variety, regions in _REGIONS.items()
    for region in regions.split()
}
