package transport

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// StatusError is the cause of a failure that was an answer: its status code. It is
// what [breaker.Change] and [breaker.OpenError] hold then.
type StatusError int

// Error returns the code and its text, as in "503 Service Unavailable".
func (s StatusError) Error() string {
	return strings.TrimSpace(strconv.Itoa(int(s)) + " " + http.StatusText(int(s)))
}

// cause returns what the breaker is told of a failure: the status, or the error,
// without what its text may give away.
func cause(req *http.Request, resp *http.Response, err error) error {
	if err == nil {
		return StatusError(resp.StatusCode)
	}
	text := err.Error()
	clean := text
	if u := req.URL; u != nil && u.RawQuery != "" { // with spaces in it, say
		clean = strings.ReplaceAll(clean, "?"+u.RawQuery, hidden)
	}
	if clean = redact(clean); clean == text {
		return err
	}
	return redacted{err, clean}
}

// redacted is an error with another text.
type redacted struct {
	error
	text string
}

func (e redacted) Error() string { return e.text }
func (e redacted) Unwrap() error { return e.error }

// redact hides the parts of an error's text that may hold what nobody is to see: a
// URL, with a password or a token, what net/http quotes of a malformed answer, which
// may be a cookie, and all after the first line, where others put an answer's body.
func redact(text string) string {
	line, _, more := strings.Cut(text, "\n")
	line = secrets.ReplaceAllString(line, hidden)
	if more {
		line += " " + hidden
	}
	return line
}

var secrets = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|[A-Za-z][A-Za-z0-9+.-]*://[^\s"']*`)

const hidden = "[redacted]"
