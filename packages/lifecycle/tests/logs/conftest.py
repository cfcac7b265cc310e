"""Logging is the whole process's: each test leaves it as it was."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    before = {name: _level(name) for name in root.manager.loggerDict}
    yield
    for handler in root.handlers:
        if handler not in handlers:
            handler.flush()
            handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in tuple(root.manager.loggerDict):
        if _level(name) != before.get(name, logging.NOTSET):
            logging.getLogger(name).setLevel(before.get(name, logging.NOTSET))


def _level(name: str) -> int:
    logger = logging.root.manager.loggerDict[name]
    return logger.level if isinstance(logger, logging.Logger) else logging.NOTSET
