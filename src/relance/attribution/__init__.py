"""Why an attempt failed: the fusion of evidence into a verdict; pure, with the time in the case file."""

from __future__ import annotations

from relance.attribution.judgements import attribute
from relance.attribution.runs import judge_runs
from relance.attribution.sentences import faults_sentence

__all__ = ["attribute", "faults_sentence", "judge_runs"]
