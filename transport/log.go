package transport

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/respitehttp/respite/breaker"
)

// StatusError is the cause of a failure that was an answer: its status code. It is
// what [breaker.Change] and [breaker.OpenError] hold then.
type StatusError int

// Error returns the code and its text, as in "503 Service Unavailable".
func (s StatusError) Error() string {
	return strings.TrimSpace(strconv.Itoa(int(s)) + " " + http.StatusText(int(s)))
}

// cause returns what the breaker is told of a failure.
func cause(resp *http.Response, err error) error {
	switch {
	case err == nil:
		return StatusError(resp.StatusCode)
	case anyURL.MatchString(err.Error()):
		return withoutURL{err}
	}
	return err
}

var anyURL = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"']*`)

// withoutURL is an error that names a URL, which may hold a password or a token.
type withoutURL struct{ error }

func (e withoutURL) Error() string { return anyURL.ReplaceAllString(e.error.Error(), "[URL]") }
func (e withoutURL) Unwrap() error { return e.error }

// log writes the record of a change. It names no URL, header or body.
func log(logger *slog.Logger, c breaker.Change) {
	if logger == nil {
		logger = slog.Default()
	}
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
		return append(attrs, slog.String("error", withoutURL{c.Cause}.Error()))
	}
	return attrs
}
