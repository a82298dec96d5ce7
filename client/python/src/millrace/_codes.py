"""An exception for each error code.

Made by client/python/tools/generate.py from the schemas: change those.
"""
from typing import Dict, Type

from ._error import MillraceError


class InvalidJsonError(MillraceError):
    """The line is not valid JSON."""
    code, status = "invalid_json", 400


class InvalidValueError(MillraceError):
    """A field has a wrong type or a value out of range."""
    code, status = "invalid_value", 400


class MissingFieldError(MillraceError):
    """A required field is absent."""
    code, status = "missing_field", 400


class UnsupportedFieldError(MillraceError):
    """A known field that this version does not support."""
    code, status = "unsupported_field", 400


class UnknownFieldError(MillraceError):
    """An unknown field, refused because the job is strict."""
    code, status = "unknown_field", 400


class UnknownTaskError(MillraceError):
    """This version does not run the job's task."""
    code, status = "unknown_task", 400


class UnknownModelError(MillraceError):
    """No engine serves this model."""
    code, status = "unknown_model", 404


class EmptyPromptError(MillraceError):
    """The prompt has no tokens."""
    code, status = "empty_prompt", 400


class InvalidTokenError(MillraceError):
    """A token id is outside the vocabulary."""
    code, status = "invalid_token", 400


class ContextExceededError(MillraceError):
    """Prompt and output do not fit the model's context."""
    code, status = "context_exceeded", 400


class KvExceededError(MillraceError):
    """The sequence cannot fit the KV memory."""
    code, status = "kv_exceeded", 400


class NoChatTemplateError(MillraceError):
    """The model has no chat template."""
    code, status = "no_chat_template", 400


class TemplateError(MillraceError):
    """The chat template refused or failed."""
    code, status = "template_error", 400


class TemplateUnsupportedError(MillraceError):
    """The chat template uses something outside our Jinja subset."""
    code, status = "template_unsupported", 400


class LimitExceededError(MillraceError):
    """A documented limit is exceeded."""
    code, status = "limit_exceeded", 400


class TooLargeError(MillraceError):
    """A frame, line or body is larger than its limit."""
    code, status = "too_large", 413


class ConflictError(MillraceError):
    """The id is already known with another body."""
    code, status = "conflict", 409


class BatchClosedError(MillraceError):
    """The batch is closed and takes no new jobs."""
    code, status = "batch_closed", 409


class DeadlinePassedError(MillraceError):
    """The deadline is in the past."""
    code, status = "deadline_passed", 400


class CancelledError(MillraceError):
    """The job was cancelled."""
    code, status = "cancelled", 499


class ExpiredError(MillraceError):
    """The deadline passed before the job ended."""
    code, status = "expired", 408


class EngineDiedError(MillraceError):
    """The engine died while it ran this job, as often as allowed."""
    code, status = "engine_died", 500


class EngineFailedError(MillraceError):
    """The engine could not run the job."""
    code, status = "engine_failed", 500


class FingerprintMismatchError(MillraceError):
    """The engine's numeric fingerprint is not the required one."""
    code, status = "fingerprint_mismatch", 409


class MalformedFrameError(MillraceError):
    """The bytes are not one valid msgpack message."""
    code, status = "malformed_frame", 400


class InvalidUtf8Error(MillraceError):
    """A string is not valid UTF-8."""
    code, status = "invalid_utf8", 400


class UnknownKindError(MillraceError):
    """No such message kind."""
    code, status = "unknown_kind", 400


class UnsupportedVersionError(MillraceError):
    """The protocol version is not supported."""
    code, status = "unsupported_version", 400


class UnexpectedMessageError(MillraceError):
    """The message does not fit the session's state or role."""
    code, status = "unexpected_message", 400


class StaleError(MillraceError):
    """The lease is no longer the current one."""
    code, status = "stale", 409


class NotFoundError(MillraceError):
    """No such job, batch, stream or lease."""
    code, status = "not_found", 404


class TrimmedError(MillraceError):
    """The requested numbers are no longer kept."""
    code, status = "trimmed", 410


class EpochChangedError(MillraceError):
    """The stream belongs to another ledger."""
    code, status = "epoch_changed", 409


class UnauthorizedError(MillraceError):
    """The session may not do this."""
    code, status = "unauthorized", 403


class OverloadedError(MillraceError):
    """A queue is full; wait and send again."""
    code, status = "overloaded", 429


class DrainingError(MillraceError):
    """The process is shutting down and takes no new work."""
    code, status = "draining", 503


class IoError(MillraceError):
    """A file or socket operation failed."""
    code, status = "io_error", 500


class DiskFullError(MillraceError):
    """No space left for new jobs."""
    code, status = "disk_full", 507


class LedgerInUseError(MillraceError):
    """Another broker holds this ledger."""
    code, status = "ledger_in_use", 409


class LedgerUnavailableError(MillraceError):
    """The ledger does not answer for the moment."""
    code, status = "ledger_unavailable", 503


class LedgerNewerError(MillraceError):
    """The ledger was written by a newer version."""
    code, status = "ledger_newer", 409


class LedgerOlderError(MillraceError):
    """The ledger was written by an earlier version."""
    code, status = "ledger_older", 409


class LedgerCorruptError(MillraceError):
    """The ledger is damaged."""
    code, status = "ledger_corrupt", 500


class LedgerSettingsError(MillraceError):
    """The ledger's durability settings are not the required ones."""
    code, status = "ledger_settings", 500


class OutputInUseError(MillraceError):
    """Another run writes this output."""
    code, status = "output_in_use", 409


class InputChangedError(MillraceError):
    """The input is not the one that this run began with."""
    code, status = "input_changed", 409


class SettingsChangedError(MillraceError):
    """The settings are not the ones that this run began with."""
    code, status = "settings_changed", 409


class UnreachableError(MillraceError):
    """The broker cannot be reached."""
    code, status = "unreachable", 503


class TimedOutError(MillraceError):
    """No answer within the time allowed."""
    code, status = "timed_out", 504


class GgufUnreadableError(MillraceError):
    """The model file cannot be opened or read."""
    code, status = "gguf_unreadable", 400


class GgufMalformedError(MillraceError):
    """The model file is damaged or hostile."""
    code, status = "gguf_malformed", 400


class GgufVersionError(MillraceError):
    """The GGUF version is not supported."""
    code, status = "gguf_version", 400


class FolderUnreadableError(MillraceError):
    """The model folder lacks a file, or it cannot be read."""
    code, status = "folder_unreadable", 400


class FolderMalformedError(MillraceError):
    """A file of the model folder is damaged or contradicts another."""
    code, status = "folder_malformed", 400


class UnsupportedQuantizationError(MillraceError):
    """The model folder's quantization is not supported."""
    code, status = "unsupported_quantization", 400


class UnsupportedArchitectureError(MillraceError):
    """The model's architecture is not supported."""
    code, status = "unsupported_architecture", 400


class UnsupportedTensorTypeError(MillraceError):
    """A tensor's type is not supported."""
    code, status = "unsupported_tensor_type", 400


class UnsupportedTokenizerError(MillraceError):
    """The tokenizer model or pre-tokenizer is not supported."""
    code, status = "unsupported_tokenizer", 400


class NoDeviceError(MillraceError):
    """No OpenCL device."""
    code, status = "no_device", 500


class DeviceError(MillraceError):
    """An OpenCL call failed."""
    code, status = "device_error", 500


class KernelBuildError(MillraceError):
    """A kernel did not compile."""
    code, status = "kernel_build", 500


class OutOfMemoryError(MillraceError):
    """The device or host has not enough memory."""
    code, status = "out_of_memory", 500


class UsageError(MillraceError):
    """The command line is wrong."""
    code, status = "usage", 400


class InterruptedError(MillraceError):
    """Stopped by a signal."""
    code, status = "interrupted", 499


class InternalError(MillraceError):
    """A defect in Millrace: please report it."""
    code, status = "internal", 500


EXCEPTIONS: Dict[str, Type[MillraceError]] = {
    one.code: one for one in MillraceError.__subclasses__()
}
