package timeouts

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOneTimer holds what cannot be seen from outside: all limits of a request
// share one timer, a moving limit does not set it anew each time, and none is left
// behind.
func TestOneTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://server.example/", nil)
		require.NoError(t, err)
		x := start(req, Limits{Header: time.Second, Idle: time.Minute})
		timer := x.timer
		require.NotNil(t, timer)
		require.Equal(t, time.Second, x.set)

		resp, err := x.handOver(&http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("data"))}, nil)
		require.NoError(t, err)
		require.Zero(t, x.due)
		time.Sleep(time.Second + 1) // it fires, and finds nothing to do
		synctest.Wait()
		require.Zero(t, x.set)

		buf := make([]byte, 1)
		for i := range 4 {
			_, err = resp.Body.Read(buf)
			require.NoError(t, err)
			require.Equal(t, time.Minute+time.Second+1, x.set, "as the first Read set it")
			require.Zero(t, x.due, "between reads")
			time.Sleep(time.Duration(i) * time.Second)
		}
		_, err = resp.Body.Read(buf)
		require.Equal(t, io.EOF, err)
		_, err = resp.Body.Read(buf)
		require.Equal(t, io.EOF, err)
		require.Zero(t, x.due)
		require.Same(t, timer, x.timer)
		require.False(t, timer.Stop(), "stopped already")
	})
}
