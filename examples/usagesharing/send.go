package usagesharing

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/respitehttp/respite/breaker"
)

// How much of an answer is read, and for how long: enough for its connection to be
// used again, unless the answer is unreasonable.
const (
	maxAnswer     = 64 << 10
	maxAnswerTime = time.Second
)

// maxLogged is how many characters of an answer, or an error, are logged.
const maxLogged = 500

// sendNext sends the oldest entries as one message. It reports false if there are
// none, or if they are still queued because they could not be sent.
func (s *Sender) sendNext(ctx context.Context, m *encoder) bool {
	s.mu.Lock()
	batch := s.queue.take(2 * s.cfg.MinEntriesPerMessage)
	s.mu.Unlock()
	if len(batch) == 0 {
		return false
	}

	status, answer, err := s.post(ctx, m.message(batch, time.Now()))
	result := failed
	switch {
	case errors.Is(err, breaker.ErrOpen), err != nil && ctx.Err() != nil:
		result = unsent
	case err != nil:
		s.logger().Warn("usage sharing: message failed", "entries", len(batch), "error", s.loggable(err.Error()))
	case status == http.StatusOK:
		result = delivered
	default:
		s.logger().Warn("usage sharing: message failed", "entries", len(batch), "status", status, "answer", s.loggable(answer))
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue.settle(batch, result)
	return result != unsent
}

// post sends a message and returns the answer to it, as far as it was read. It uses
// the gate without an http.Client, since there is no redirect to follow: that would
// turn the POST into a GET, and the answer to it might look like success.
func (s *Sender) post(ctx context.Context, message []byte) (status int, answer string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.cfg.URL, bytes.NewReader(message))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Encoding", "gzip")
	req.Header.Set("Content-Type", "text/xml; charset=utf-8")
	if user := req.URL.User; user != nil {
		password, _ := user.Password()
		req.SetBasicAuth(user.Username(), password)
	}
	resp, err := s.gate.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	defer time.AfterFunc(maxAnswerTime, func() { resp.Body.Close() }).Stop()
	content, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // what breaks it is no news
	return resp.StatusCode, string(content), nil
}

// loggable returns the beginning of a text that came from outside.
func (s *Sender) loggable(text string) string {
	text = s.redact.Replace(strings.ToValidUTF8(text, "\uFFFD"))
	return firstCharacters(text, maxLogged)
}

// redactor hides the user information and the query of a URL: errors and answers may
// repeat them.
func redactor(u *url.URL) *strings.Replacer {
	secrets := []string{u.RawQuery}
	for _, values := range u.Query() {
		secrets = append(secrets, values...)
	}
	if u.User != nil {
		password, _ := u.User.Password()
		secrets = append(secrets, u.User.String(), password)
	}
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) }) // one may be a part of another
	var pairs []string
	for _, secret := range secrets {
		if len(secret) > 3 { // a shorter one hides nothing, and is a part of any text
			pairs = append(pairs, secret, "[redacted]")
		}
	}
	return strings.NewReplacer(pairs...)
}
