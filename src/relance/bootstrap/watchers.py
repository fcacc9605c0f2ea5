"""The watcher role: rules, log sources, and the loop over them."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from relance.bootstrap.senses import open_senses
from relance.config import ClusterSettings, SettingError, Settings
from relance.config.caches import FolderCache, default_cache_folder
from relance.ports.backends import Backend
from relance.ports.clocks import Clock
from relance.rules import Pack, PackError, best_engine, load_pack
from relance.rules.keeping import kept_pack
from relance.rules.pack import loader_version, read_texts
from relance.watching.senses import Senses
from relance.watching.settings import WatcherSettings
from relance.watching.watchers import Watcher


@dataclass(frozen=True, slots=True, kw_only=True)
class WatcherRole:
    """A watcher with what it uses."""

    watcher: Watcher
    senses: Senses

    async def close(self) -> None:
        """Close the sources."""
        await self.senses.close()


def open_watcher(cluster: ClusterSettings, pack: Pack, backend: Backend, clock: Clock) -> WatcherRole:
    """The watcher of one cluster."""
    senses = open_senses(cluster, pack, clock)
    watcher = Watcher(
        backend=backend,
        senses=senses,
        pack=pack,
        clock=clock,
        settings=WatcherSettings(
            cluster=cluster.name,
            holder=f"{socket.gethostname()}/{cluster.name}",
            hang=cluster.limits.hang,
            slowdown=cluster.limits.slowdown,
            divergence=cluster.limits.divergence,
        ),
        engine=best_engine(_cache()),
    )
    return WatcherRole(watcher=watcher, senses=senses)


def site_pack(settings: Settings) -> Pack:
    """The shipped rules with the site's own. Raises SettingError when a rule file cannot be read or used."""
    texts = dict(read_texts())
    for path in settings.rules.files:
        try:
            texts[str(path)] = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            message = f"cannot read the rule file {path}: {error}"
            raise SettingError(message) from error
    weights, off = settings.rules.weights, settings.rules.off
    try:
        return kept_pack(
            texts,
            _cache(),
            lambda: load_pack(texts, weights=weights, off=off),
            settings=(weights, off),
            version=loader_version(),
        )
    except PackError as error:
        raise SettingError(str(error)) from error


def _cache() -> FolderCache:
    """Where rules that were read and compiled are kept for the next start."""
    return FolderCache(default_cache_folder())
