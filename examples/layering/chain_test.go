package layering_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/respitehttp/respite/transport"
)

func TestChainOfOtelGateAndOAuth2(t *testing.T) {
	overBothProtocols(t, func(t *testing.T, serve serve) {
		server := serve(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/bad" {
				answer(503)(w, r)
				return
			}
			io.WriteString(w, r.Header.Get("Authorization")+", traced: "+r.Header.Get("Traceparent"))
		})
		spans, source := tracetest.NewSpanRecorder(), new(tokens)
		gate := newGate(t, transport.Config{Breaker: pausesAfter(1)})
		rt := transport.Chain(server.base(), traceTo(spans), gate.Wrap, authorize(source))

		_, body, err := get(rt, server.URL+"/good")
		require.NoError(t, err)
		assert.Contains(t, body, "Bearer token, traced: 00-"+onlySpan(t, spans).SpanContext().TraceID().String())
		requireStatus(t, 503, rt, server.URL+"/bad")

		// The refusal: a span, since otel is above; no token, since oauth2 is below.
		_, _, err = get(rt, server.URL+"/good")
		requireRefused(t, err)
		assert.EqualValues(t, 2, server.calls.Load())
		assert.EqualValues(t, 2, source.asked.Load())
		require.Len(t, spans.Ended(), 3)
		assert.Equal(t, codes.Error, spans.Ended()[2].Status().Code)
	})
}

// wrapperFunc and restConfig are what client-go has of this kind: a named function
// type, and a config that takes one after the other. The last one is the outermost.
type wrapperFunc func(rt http.RoundTripper) http.RoundTripper

type restConfig struct{ wrap wrapperFunc }

func (c *restConfig) Wrap(fn wrapperFunc) {
	inner := c.wrap
	c.wrap = func(rt http.RoundTripper) http.RoundTripper {
		if inner != nil {
			rt = inner(rt)
		}
		return fn(rt)
	}
}

func TestWrapFitsTheConfigOfAnAPIClient(t *testing.T) {
	overBothProtocols(t, func(t *testing.T, serve serve) {
		server := serve(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer token" {
				answer(401)(w, r)
				return
			}
			answer(503)(w, r)
		})
		gate := newGate(t, transport.Config{Breaker: pausesAfter(2)})
		var config restConfig
		config.Wrap(authorized)
		config.Wrap(gate.Wrap)

		// Clients are made anew, each with a transport of its own. They share the
		// breaker.
		first, second := config.wrap(server.base()), config.wrap(server.base())
		requireStatus(t, 503, first, server.URL)
		requireStatus(t, 503, second, server.URL)
		for _, rt := range []http.RoundTripper{first, second} {
			_, _, err := get(rt, server.URL)
			assert.Equal(t, transport.StatusError(503), requireRefused(t, err).Cause)
		}
		assert.EqualValues(t, 2, server.calls.Load())
	})
}
