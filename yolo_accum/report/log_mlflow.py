"""A run in an MLflow store of its own: ``mlflow ui --backend-store-uri sqlite:///RUN/mlflow/mlflow.db``."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Mapping
from typing import Any

from yolo_accum.contracts import RunEnded, RunStarted
from yolo_accum.report.log_values import card_rows, final_values, logger_package, pictures

EXPERIMENT = "yolo-accum"
WRITE_EVERY_S = 10.0
"""Every write is a transaction, which waits for the disk."""
MAX_METRICS, MAX_PARAMS, MAX_TEXT = 1000, 100, 500
"""What MLflow takes in one call, and as the value of a parameter."""
OUTCOMES = {"finished": "FINISHED", "interrupted": "KILLED", "failed": "FAILED"}


class MlflowStore:
    """Every number twice, as MLflow knows one axis of counts only: by update, and by images seen.

    Raises:
        UserError: the package is not installed.
    """

    def __init__(self) -> None:
        os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"  # nothing leaves this machine
        self._package = logger_package("mlflow", "mlflow")
        self._entities = logger_package("mlflow.entities", "mlflow")
        logging.getLogger("mlflow").setLevel(logging.ERROR)  # it tells of every table that it makes
        self._client: Any = None
        self._run_id = ""
        self._waiting: list[Any] = []
        self._written_s = 0.0

    def open(self, event: RunStarted) -> None:
        """A run that goes on finds the store, and the one run in it."""
        folder = event.folder.resolve() / "mlflow"
        folder.mkdir(exist_ok=True)
        uri = f"sqlite:///{folder / 'mlflow.db'}"
        self._client = self._package.MlflowClient(tracking_uri=uri, registry_uri=uri)
        experiment = self._client.get_experiment_by_name(EXPERIMENT)
        if experiment is not None and (earlier := self._client.search_runs([experiment.experiment_id])):
            self._run_id = earlier[0].info.run_id
            self._client.update_run(self._run_id, status="RUNNING")
            return
        place = (folder / "artifacts").as_uri()
        number = self._client.create_experiment(EXPERIMENT, artifact_location=place)
        self._run_id = self._client.create_run(number, run_name=event.folder.resolve().name).info.run_id
        params = [
            self._entities.Param(name, str(value)[:MAX_TEXT]) for name, value in event.config.items() if value != ()
        ]
        for first in range(0, len(params), MAX_PARAMS):
            self._client.log_batch(self._run_id, params=params[first : first + MAX_PARAMS])

    def log(self, values: Mapping[str, float], *, update: int, images_seen: int) -> None:
        """Kept until the next write is due."""
        now_ms = round(time.time() * 1000)
        for name, value in values.items():
            if math.isfinite(value):
                group, _, rest = name.partition("/")
                self._waiting.append(self._entities.Metric(name, value, now_ms, update))
                by_images = f"{group} by images seen/{rest}"
                self._waiting.append(self._entities.Metric(by_images, value, now_ms, images_seen))
        if time.monotonic() - self._written_s >= WRITE_EVERY_S:
            self._write()

    def _write(self) -> None:
        while self._waiting:
            self._client.log_batch(self._run_id, metrics=self._waiting[:MAX_METRICS])
            del self._waiting[:MAX_METRICS]
        self._written_s = time.monotonic()

    def close(self, event: RunEnded) -> None:
        """Pictures as artifacts, the run card as a text and as tags."""
        last = event.counters.get("updates_applied", 0)
        self.log(final_values(event), update=last, images_seen=event.counters.get("images_seen", 0))
        self._write()
        for path in pictures(event).values():
            self._client.log_artifact(self._run_id, str(path), "pictures")
        self._client.log_dict(self._run_id, card_rows(event), "run_card.json")
        self._client.set_tag(self._run_id, "outcome", event.outcome)
        self._client.set_terminated(self._run_id, OUTCOMES[event.outcome])
