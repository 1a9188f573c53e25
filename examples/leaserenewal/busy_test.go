package leaserenewal_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/respitehttp/respite/examples/leaserenewal"
	"github.com/respitehttp/respite/httptestutil"
)

// L3, L4: a status that has arrived counts, also where the rest of the answer does not
// come before the deadline of the attempt.
func TestL3AnswerThatStalls(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusNotFound} {
		synctest.Test(t, func(t *testing.T) {
			server := httptestutil.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(status)
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			}))
			unexpected := func() { t.Error("lost") }
			gone := 0
			renewal, err := leaserenewal.New(leaserenewal.Config{
				TTL:     4 * time.Second, // so an attempt may take half a second
				Renew:   leaserenewal.Patch(server.Client(), leaserenewal.Object{URL: server.URL}),
				OnGone:  func() { gone++ },
				OnLost:  unexpected,
				OnError: func(err error) { t.Error(err) },
			})
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			err = renewal.Run(ctx)
			if status == http.StatusOK {
				require.Equal(t, context.DeadlineExceeded, err)
				require.Zero(t, gone)
			} else {
				require.Equal(t, leaserenewal.ErrGone, err)
				require.Equal(t, 1, gone)
			}
		})
	}
}

// A renewal that succeeds while OnLost is busy has succeeded, though its deadline is
// over when Run gets to see it.
func TestL4SuccessWhileOnLostIsBusy(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			renewal, err := leaserenewal.New(leaserenewal.Config{
				TTL: time.Minute,
				Renew: func(context.Context, time.Time) error {
					if time.Since(start) < 57*time.Second {
						return errors.New("not yet")
					}
					time.Sleep(4 * time.Second)
					return nil
				},
				OnLost:  func() { time.Sleep(10 * time.Second) },
				OnError: func(err error) { require.EqualError(t, err, "not yet") },
			})
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 80*time.Second)
			defer cancel()
			require.Equal(t, context.DeadlineExceeded, renewal.Run(ctx))
		})
	}
}

// L6: once the context has ended, nobody is told anything.
func TestL6NoNoticeAfterTheEnd(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			renewal, err := leaserenewal.New(leaserenewal.Config{
				TTL:   time.Minute,
				Renew: func(context.Context, time.Time) error { return errors.New("no") },
				OnError: func(error) {
					cancel()
					time.Sleep(40 * time.Second)
				},
				OnLost: func() { t.Error("told after the end") },
			})
			require.NoError(t, err)
			require.Equal(t, context.Canceled, renewal.Run(ctx))
		})
	}
}
