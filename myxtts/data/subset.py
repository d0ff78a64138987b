"""The training or validation subset of a corpus, and the cache last made for it.

Startup time must not grow with the corpus, as it would if all rows were read and all files were
statted. So for a large corpus the cache last made for the same metadata and settings is reused;
`myxtts prepare` detects changed audio files.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from myxtts.config.config import XTTSConfig
from myxtts.data.cache import FeatureCache, is_cache_name, open_cache
from myxtts.data.features import settings_fingerprint, too_many_rejected
from myxtts.data.metadata import LJSpeechDataset, metadata_files
from myxtts.errors import ConfigError
from myxtts.json_files import read_json
from myxtts.text.languages import TAG_RULES
from myxtts.whole_files import write_whole_file

CACHE_FOLDER = "myxtts-cache"
LARGE_METADATA_BYTES = 4_000_000
_READ_BYTES = 1 << 20


@dataclass(frozen=True)
class CorpusSubset:
    subset: str
    """train or eval."""
    folder: Path
    config: XTTSConfig

    @classmethod
    def of(cls, config: XTTSConfig, subset: str) -> CorpusSubset:
        data = config.data
        if data.train_data is None:
            raise ConfigError("data.train_data: not set; give a corpus with --train-data DIR")
        folder = data.val_data if subset == "eval" and data.val_data else data.train_data
        return cls(subset, Path(folder), config)

    @property
    def cache_root(self) -> Path:
        given = self.config.data.cache_dir
        return Path(given) if given else self.folder / CACHE_FOLDER

    @property
    def validation_fraction(self) -> float | None:
        """None with a separate validation corpus: then nothing is held out."""
        data = self.config.data
        return data.validation_fraction if data.val_data is None else None

    def dataset(self) -> LJSpeechDataset:
        return LJSpeechDataset(
            self.folder,
            self.subset,
            default_language=self.config.text.default_language,
            validation_fraction=self.validation_fraction,
            layout=self.config.data.layout,
            delimiter=self.config.data.delimiter,
        )

    def remembered_cache(self) -> FeatureCache | None:
        """The cache last made, for a large corpus whose metadata and settings are unchanged.

        None too if it has so many rejected clips that a run stops: `prepare` says why.
        """
        metadata_file = self._metadata_file()
        try:
            large = metadata_file.stat().st_size >= LARGE_METADATA_BYTES
            if not large:
                return None
            last = read_json(self._last_cache_file(), ("request", "cache"))
        except (OSError, ValueError):
            return None
        folder = self.cache_root / last["cache"]
        is_ours = is_cache_name(last["cache"]) and folder.is_dir()
        if not is_ours or last["request"] != self._digest(metadata_file):
            return None
        cache = open_cache(folder)
        clips = sum(cache.rejected.values()) + len(cache)
        return None if too_many_rejected(cache.rejected, clips, self.config) else cache

    def remember(self, cache: FeatureCache) -> None:
        """Failing to write only makes the next start slower."""
        content = {"request": self._digest(self._metadata_file()), "cache": cache.folder.name}
        with contextlib.suppress(OSError):
            write_whole_file(self._last_cache_file(), json.dumps(content))

    def _metadata_file(self) -> Path:
        train_file, eval_file = metadata_files(self.folder, self.subset)
        chosen = eval_file if self.subset == "eval" and eval_file is not None else train_file
        assert chosen is not None  # metadata_files has checked it
        return chosen

    def _last_cache_file(self) -> Path:
        key = f"{self.subset} {self.folder.resolve()}".encode()
        name = hashlib.blake2b(key, digest_size=8).hexdigest()
        return self.cache_root / f"{self.subset}-{name}.json"

    def _digest(self, metadata_file: Path) -> str:
        settings = [
            settings_fingerprint(self.config),
            self.config.data.layout,
            self.config.data.delimiter,
            self.config.text.default_language,
            TAG_RULES,
            self.validation_fraction,
        ]
        digest = hashlib.blake2b(json.dumps(settings).encode(), digest_size=16)
        with open(metadata_file, "rb") as file:
            while block := file.read(_READ_BYTES):
                digest.update(block)
        return digest.hexdigest()
