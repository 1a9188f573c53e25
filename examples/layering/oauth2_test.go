package layering_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"

	"github.com/respitehttp/respite/breaker"
	"github.com/respitehttp/respite/httptestutil"
	"github.com/respitehttp/respite/transport"
)

// tokens is a token source that counts how often it is asked, and fails with err if
// that is not nil.
type tokens struct {
	asked atomic.Int64
	err   error
}

func (s *tokens) Token() (*oauth2.Token, error) {
	s.asked.Add(1)
	if s.err != nil {
		return nil, s.err
	}
	return &oauth2.Token{AccessToken: "token", TokenType: "Bearer"}, nil
}

var errNoToken = errors.New("no token to be had")

// authorize gives each request a token of the source.
func authorize(source oauth2.TokenSource) transport.Middleware {
	return func(base http.RoundTripper) http.RoundTripper {
		return &oauth2.Transport{Source: source, Base: base}
	}
}

func authorized(base http.RoundTripper) http.RoundTripper {
	return authorize(new(tokens))(base)
}

// withOAuth2 runs test with oauth2 above and below the gate, over each protocol.
func withOAuth2(t *testing.T, source func() *tokens, test func(t *testing.T, above bool, l layering, source *tokens, serve serve)) {
	run := func(t *testing.T, above bool) {
		overBothProtocols(t, func(t *testing.T, serve serve) {
			s := source()
			l := layering{above: nothing, below: authorize(s)}
			if above {
				l = layering{above: authorize(s), below: nothing}
			}
			test(t, above, l, s, serve)
		})
	}
	t.Run("above", func(t *testing.T) { run(t, true) })
	t.Run("below", func(t *testing.T) { run(t, false) })
}

func TestOAuth2TokenReachesTheServer(t *testing.T) {
	withOAuth2(t, func() *tokens { return new(tokens) }, func(t *testing.T, _ bool, l layering, _ *tokens, serve serve) {
		server := serve(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, r.Header.Get("Authorization")+" with ")
			io.Copy(w, r.Body)
		})
		rt, _ := l.around(t, server.base(), transport.Config{})
		resp, err := (&http.Client{Transport: rt}).Post(server.URL, "text/plain", strings.NewReader("content"))
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, "Bearer token with content", string(body))
	})
}

// Above, oauth2 gets a token before the gate is asked. Below, a refused request
// costs no token.
func TestOAuth2BelowAsksForNoTokenDuringAPause(t *testing.T) {
	withOAuth2(t, func() *tokens { return new(tokens) }, func(t *testing.T, above bool, l layering, source *tokens, serve serve) {
		server := serve(answer(503))
		rt, _ := l.around(t, server.base(), transport.Config{Breaker: pausesAfter(2)})
		requireStatus(t, 503, rt, server.URL)
		requireStatus(t, 503, rt, server.URL)
		require.EqualValues(t, 2, source.asked.Load())

		_, _, err := get(rt, server.URL)
		requireRefused(t, err)
		if above {
			assert.EqualValues(t, 3, source.asked.Load())
		} else {
			assert.EqualValues(t, 2, source.asked.Load())
		}
	})
}

// Above, a token source that fails never reaches the gate: it says nothing about
// the server. Below, it is an error of the base like any other: a failure.
func TestOAuth2TokenSourceThatFailsCountsOnlyBelow(t *testing.T) {
	failing := func() *tokens { return &tokens{err: errNoToken} }
	withOAuth2(t, failing, func(t *testing.T, above bool, l layering, _ *tokens, serve serve) {
		server := serve(answer(200))
		rt, gate := l.around(t, server.base(), transport.Config{Breaker: pausesAfter(2)})
		post := func() error {
			_, err := (&http.Client{Transport: rt}).Post(server.URL, "text/plain", httptestutil.Body(t, "content"))
			return err
		}
		require.ErrorIs(t, post(), errNoToken)
		require.ErrorIs(t, post(), errNoToken)
		assert.Zero(t, server.calls.Load())

		stats := gate.Breaker.Stats()
		if above {
			assert.Zero(t, stats.Failed)
			assert.Equal(t, breaker.Closed, stats.State)
			require.ErrorIs(t, post(), errNoToken)
			return
		}
		assert.EqualValues(t, 2, stats.Failed)
		assert.Equal(t, breaker.Open, stats.State)
		assert.Equal(t, errNoToken, requireRefused(t, post()).Cause)
	})
}
