package usagesharing

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/respitehttp/respite/breaker"
	"github.com/respitehttp/respite/examples/internal/answer"
)

// sendNext sends the oldest entries as one message. It reports false if there are
// none, or if they are still queued because they could not be sent.
func (s *Sender) sendNext(ctx context.Context, m *encoder) bool {
	s.mu.Lock()
	batch := s.queue.take(2 * s.cfg.MinEntriesPerMessage)
	s.mu.Unlock()
	if len(batch) == 0 {
		return false
	}

	status, excerpt, err := s.post(ctx, m, batch)
	result := failed
	switch {
	case errors.Is(err, breaker.ErrOpen), err != nil && ctx.Err() != nil:
		result = unsettled
	case err != nil:
		s.logger().Warn("usage sharing: message failed", "entries", len(batch), "error", err.Error())
	case status == http.StatusOK:
		result = delivered
	default:
		s.logger().Warn("usage sharing: message failed", "entries", len(batch), "status", status, "answer", excerpt)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue.settle(batch, result)
	return result != unsettled
}

// post sends the entries, and returns the status of the answer and an excerpt from it.
func (s *Sender) post(ctx context.Context, m *encoder, batch []entry) (status int, excerpt string, err error) {
	message, err := m.message(ctx, batch, time.Now())
	if err != nil {
		return 0, "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.cfg.URL, bytes.NewReader(message))
	if err != nil {
		return 0, "", err // never: URL is valid
	}
	req.Header.Set("Content-Encoding", "gzip")
	req.Header.Set("Content-Type", "text/xml; charset=utf-8")
	return answer.Brief(&http.Client{Transport: s.gate}, req)
}
