package transport

import (
	"net/http"
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

// cause returns what the breaker is told of a failure: the status or the error.
func cause(req *http.Request, resp *http.Response, err error) error {
	if err == nil {
		return StatusError(resp.StatusCode)
	}
	return Redact(req, err)
}
