"""Answers a question as rows: what the command prints."""

from dataclasses import dataclass

from pyspark.sql import DataFrame

from arauto.pipeline.audit import questions
from arauto.pipeline.audit.questions import Question
from arauto.pipeline.lake.table import Lake
from arauto.pipeline.sql.run import Answer

__all__ = ["Subject", "ask_audit"]


@dataclass(frozen=True, slots=True)
class Subject:
    """What is asked about: one of these, or the peaks of one of them or of everything."""

    message: str = ""
    user: str = ""
    channel: str = ""
    peaks: bool = False


def ask_audit(lake: Lake, question: Question, subject: Subject, limit: int) -> Answer:
    """The first `limit` rows of the list, and whether there are more.

    Raises:
        ArautoError: BAD_FIELD, BAD_CHANNEL_NAME.
    """
    frame = _frame(lake, question, subject)
    rows = frame.limit(limit + 1).collect()
    return Answer(tuple(frame.columns), [tuple(row) for row in rows[:limit]], len(rows) > limit)


def _frame(lake: Lake, question: Question, subject: Subject) -> DataFrame:
    if subject.peaks:
        rows = question.rows(lake, "messages")
        for name, value in (("user", subject.user), ("channel", subject.channel)):
            if value:
                rows = rows.where(rows[name] == value)
        return questions.peaks(rows)
    if subject.message:
        return questions.about_message(lake, question, subject.message)
    if subject.user:
        return questions.about_user(lake, question, subject.user)
    return questions.about_channel(lake, question, subject.channel)
