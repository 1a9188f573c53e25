package layering_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/respitehttp/respite/breaker"
	"github.com/respitehttp/respite/httptestutil"
	"github.com/respitehttp/respite/policy"
	"github.com/respitehttp/respite/timeouts"
	"github.com/respitehttp/respite/transport"
)

// echoMessages accepts a WebSocket and sends back each message.
func echoMessages(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer conn.CloseNow()
	for {
		kind, message, err := conn.Read(context.Background())
		if err != nil {
			return
		}
		if conn.Write(context.Background(), kind, message) != nil {
			return
		}
	}
}

func dial(ctx context.Context, rt http.RoundTripper, url string) (*websocket.Conn, error) {
	conn, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPClient: &http.Client{Transport: rt}})
	return conn, err
}

// requireMessageBack requires that a message comes back.
func requireMessageBack(t testing.TB, conn *websocket.Conn, message string) {
	t.Helper()
	require.NoError(t, conn.Write(t.Context(), websocket.MessageText, []byte(message)))
	kind, echo, err := conn.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, websocket.MessageText, kind)
	require.Equal(t, message, string(echo))
}

func TestWebSocketIsASuccessWithServerErrors(t *testing.T) {
	server := serveHTTP1(t)(echoMessages)
	gate := newGate(t, transport.Config{Base: server.base(), Classify: policy.ServerErrors, Breaker: pausesAfter(1)})
	for range 3 {
		conn, err := dial(t.Context(), gate, server.URL)
		require.NoError(t, err)
		for _, message := range []string{"one", "two", "three"} {
			requireMessageBack(t, conn, message)
		}
		require.NoError(t, conn.Close(websocket.StatusNormalClosure, ""))
	}
	assert.Zero(t, gate.Breaker.Stats().Failed)
	assert.EqualValues(t, 3, server.calls.Load())
}

// Only200 takes the 101 of a WebSocket for a failure. The connection works all the
// same, but with enough of them sending pauses.
func TestWebSocketIsAFailureWithOnly200(t *testing.T) {
	server := serveHTTP1(t)(echoMessages)
	gate := newGate(t, transport.Config{Base: server.base(), Breaker: pausesAfter(1)})
	conn, err := dial(t.Context(), gate, server.URL)
	require.NoError(t, err)
	defer conn.CloseNow()
	requireMessageBack(t, conn, "hello")

	assert.EqualValues(t, 1, gate.Breaker.Stats().Failed)
	_, err = dial(t.Context(), gate, server.URL)
	assert.Equal(t, transport.StatusError(101), requireRefused(t, err).Cause)
	requireMessageBack(t, conn, "hello again")
}

func TestWebSocketIsRefusedDuringAPause(t *testing.T) {
	server := serveHTTP1(t)(answer(503))
	gate := newGate(t, transport.Config{Base: server.base(), Classify: policy.ServerErrors, Breaker: pausesAfter(2)})
	for range 2 {
		_, err := dial(t.Context(), gate, server.URL)
		require.ErrorContains(t, err, "got 503")
	}
	_, err := dial(t.Context(), gate, server.URL)
	requireRefused(t, err)
	assert.EqualValues(t, 2, server.calls.Load())
	assert.EqualValues(t, 2, gate.Breaker.Stats().Failed)
}

// The limits end with the 101, so a connection may be silent for longer than any
// of them.
func TestWebSocketOutlivesTheLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := httptestutil.NewServer(t, http.HandlerFunc(echoMessages))
		limit := 200 * time.Millisecond
		gate := newGate(t, transport.Config{
			Base:     server.Transport,
			Limits:   timeouts.Limits{Total: limit, Header: limit, Idle: limit},
			Classify: policy.ServerErrors,
		})
		conn, err := dial(t.Context(), gate, server.URL)
		require.NoError(t, err)
		requireMessageBack(t, conn, "hello")
		time.Sleep(time.Hour)
		requireMessageBack(t, conn, "hello again")

		reading := make(chan error)
		go func() {
			_, _, err := conn.Read(t.Context())
			reading <- err
		}()
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Empty(t, reading)
		require.NoError(t, conn.Close(websocket.StatusNormalClosure, ""))
		require.Error(t, <-reading)
		assert.Zero(t, gate.Breaker.Stats().Failed)
	})
}

// The context of the dial does not bind the connection, as without the Gate.
func TestWebSocketOutlivesTheContextOfItsDial(t *testing.T) {
	server := serveHTTP1(t)(echoMessages)
	gate := newGate(t, transport.Config{Base: server.base(), Classify: policy.ServerErrors})
	ctx, cancel := context.WithCancel(t.Context())
	conn, err := dial(ctx, gate, server.URL)
	require.NoError(t, err)
	defer conn.CloseNow()
	cancel()
	requireMessageBack(t, conn, "hello")
}

func TestWebSocketHandshakeEndsWithTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := httptestutil.NewServer(t, http.HandlerFunc(hang))
		gate := newGate(t, transport.Config{
			Base:     server.Transport,
			Limits:   timeouts.Limits{Header: 5 * time.Second},
			Classify: policy.ServerErrors,
			Breaker:  breaker.Config{FailuresToEnterRecovery: 1},
		})
		began := time.Now()
		_, err := dial(t.Context(), gate, server.URL)
		var limit *timeouts.Error
		require.ErrorAs(t, err, &limit)
		assert.Equal(t, timeouts.Header, limit.Phase)
		assert.Equal(t, 5*time.Second, time.Since(began))
		assert.Equal(t, breaker.Open, gate.Breaker.State())
	})
}
