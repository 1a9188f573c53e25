package transport

import (
	"cmp"
	"context"
	"errors"
	"log/slog"

	"github.com/respitehttp/respite/breaker"
)

// logChange writes the record of a change. It names no URL, header or body: an error is
// redacted.
func logChange(logger *slog.Logger, c breaker.Change) {
	logger = cmp.Or(logger, slog.Default())
	record := func(level slog.Level, message string, attrs ...slog.Attr) {
		logger.LogAttrs(context.Background(), level, message, attrs...)
	}
	switch {
	case c.From == breaker.Closed:
		record(slog.LevelWarn, "sending paused", pause(c)...)
	case c.To == breaker.Closed:
		record(slog.LevelInfo, "sending resumed")
	case c.To == breaker.Open && c.Failures > 0:
		record(slog.LevelWarn, "pause lengthened", pause(c)...)
	case c.To == breaker.Open:
		record(slog.LevelInfo, "trial cancelled", slog.Duration("delay", c.Delay))
	}
}

// pause says how long sending pauses, and after what.
func pause(c breaker.Change) []slog.Attr {
	attrs := []slog.Attr{slog.Duration("delay", c.Delay), slog.Int("failures", c.Failures)}
	var status StatusError
	switch {
	case errors.As(c.Cause, &status):
		return append(attrs, slog.Int("status", int(status)))
	case c.Cause != nil:
		return append(attrs, slog.String("error", Redact(nil, c.Cause).Error()))
	}
	return attrs
}
