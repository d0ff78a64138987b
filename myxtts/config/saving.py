"""Settings of what a run writes."""

from __future__ import annotations

from myxtts.config.schema import Section, frozen_settings, setting


@frozen_settings
class SavingConfig(Section):
    """Checkpoints and logged metrics."""

    section_name = "saving"
    save_every: int = setting(500, "Steps between checkpoints.", least=1)
    keep_checkpoints: int = setting(
        3, "Number of recent checkpoints to keep, besides the best one.", least=1
    )
    log_every: int = setting(10, "Steps between lines of metrics.jsonl.", least=1)
