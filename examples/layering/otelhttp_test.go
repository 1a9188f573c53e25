package layering_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/respitehttp/respite/httptestutil"
	"github.com/respitehttp/respite/policy"
	"github.com/respitehttp/respite/timeouts"
	"github.com/respitehttp/respite/transport"
)

// traceTo records a span for each request.
func traceTo(spans *tracetest.SpanRecorder) transport.Middleware {
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	return func(base http.RoundTripper) http.RoundTripper {
		return otelhttp.NewTransport(base,
			otelhttp.WithTracerProvider(provider),
			otelhttp.WithPropagators(propagation.TraceContext{}))
	}
}

func traced(base http.RoundTripper) http.RoundTripper {
	return traceTo(tracetest.NewSpanRecorder())(base)
}

// aboveAndBelow runs test with otelhttp above and below the gate.
func aboveAndBelow(t *testing.T, test func(t *testing.T, above bool, l layering, spans *tracetest.SpanRecorder)) {
	t.Run("above", func(t *testing.T) {
		spans := tracetest.NewSpanRecorder()
		test(t, true, layering{above: traceTo(spans), below: nothing}, spans)
	})
	t.Run("below", func(t *testing.T) {
		spans := tracetest.NewSpanRecorder()
		test(t, false, layering{above: nothing, below: traceTo(spans)}, spans)
	})
}

// onlySpan returns the span that has ended, and requires that there is no other.
func onlySpan(t testing.TB, spans *tracetest.SpanRecorder) sdktrace.ReadOnlySpan {
	t.Helper()
	require.Len(t, spans.Started(), 1)
	require.Len(t, spans.Ended(), 1, "the span has not ended")
	return spans.Ended()[0]
}

func attributeOf(span sdktrace.ReadOnlySpan, key attribute.Key) attribute.Value {
	set := attribute.NewSet(span.Attributes()...)
	value, _ := set.Value(key)
	return value
}

func TestOtelTraceContextReachesTheServer(t *testing.T) {
	aboveAndBelow(t, func(t *testing.T, _ bool, l layering, spans *tracetest.SpanRecorder) {
		overBothProtocols(t, func(t *testing.T, serve serve) {
			spans.Reset()
			arrived := make(chan trace.SpanContext, 1)
			server := serve(func(_ http.ResponseWriter, r *http.Request) {
				ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.HeaderCarrier(r.Header))
				arrived <- trace.SpanContextFromContext(ctx)
			})
			rt, _ := l.around(t, server.base(), transport.Config{})
			requireStatus(t, 200, rt, server.URL)

			at, span := receive(t, arrived), onlySpan(t, spans).SpanContext()
			require.True(t, at.IsValid())
			assert.Equal(t, span.TraceID(), at.TraceID())
			assert.Equal(t, span.SpanID(), at.SpanID())
		})
	})
}

// The span that the caller has in its context reaches otelhttp through the layers.
func TestOtelSpanIsAChildOfTheCallersSpan(t *testing.T) {
	aboveAndBelow(t, func(t *testing.T, _ bool, l layering, spans *tracetest.SpanRecorder) {
		server := serveHTTP1(t)(answer(200))
		rt, _ := l.around(t, server.base(), transport.Config{})
		ctx, caller := sdktrace.NewTracerProvider().Tracer("caller").Start(t.Context(), "caller")
		resp, err := (&http.Client{Transport: rt}).Do(newRequest(t, ctx, "GET", server.URL, nil))
		require.NoError(t, err)
		resp.Body.Close()
		assert.Equal(t, caller.SpanContext(), onlySpan(t, spans).Parent())
	})
}

func TestOtelSpanEndsWithTheBody(t *testing.T) {
	ends := []struct {
		name string
		end  func(io.ReadCloser)
	}{
		{"read", func(body io.ReadCloser) { io.Copy(io.Discard, body) }},
		{"closed", func(body io.ReadCloser) { body.Close() }},
	}
	statuses := []struct {
		code int
		want codes.Code
	}{{200, codes.Unset}, {503, codes.Error}}

	aboveAndBelow(t, func(t *testing.T, _ bool, l layering, spans *tracetest.SpanRecorder) {
		overBothProtocols(t, func(t *testing.T, serve serve) {
			for _, e := range ends {
				for _, status := range statuses {
					t.Run(e.name+" "+http.StatusText(status.code), func(t *testing.T) {
						spans.Reset()
						server := serve(answer(status.code))
						rt, _ := l.around(t, server.base(), transport.Config{})
						resp, err := (&http.Client{Transport: rt}).Get(server.URL)
						require.NoError(t, err)
						defer resp.Body.Close()
						require.Empty(t, spans.Ended(), "ended before the body")

						e.end(resp.Body)
						span := onlySpan(t, spans)
						assert.Equal(t, status.want, span.Status().Code)
						assert.EqualValues(t, status.code, attributeOf(span, "http.response.status_code").AsInt64())
					})
				}
			}
		})
	})
}

func TestOtelRefusalHasASpanOnlyAbove(t *testing.T) {
	aboveAndBelow(t, func(t *testing.T, above bool, l layering, spans *tracetest.SpanRecorder) {
		overBothProtocols(t, func(t *testing.T, serve serve) {
			server := serve(answer(200))
			rt, gate := l.around(t, server.base(), transport.Config{Breaker: pausesAfter(1)})
			gate.Breaker.Fail(nil)
			spans.Reset()
			_, _, err := get(rt, server.URL)
			requireRefused(t, err)

			if !above {
				assert.Empty(t, spans.Started())
				return
			}
			span := onlySpan(t, spans)
			assert.Equal(t, codes.Error, span.Status().Code)
			assert.Contains(t, span.Status().Description, "sending is paused")
			assert.Contains(t, attributeOf(span, "error.type").AsString(), "breaker.OpenError")
		})
	})
}

// In both orders the caller gets the error of the limit. A span above the gate
// shows it; one below shows what the base saw: the end of its context.
func TestOtelSpanEndsWithALimit(t *testing.T) {
	const limit = 5 * time.Second
	aboveAndBelow(t, func(t *testing.T, above bool, l layering, spans *tracetest.SpanRecorder) {
		t.Run("header", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				spans.Reset()
				server := httptestutil.NewServer(t, http.HandlerFunc(hang))
				rt, _ := l.around(t, server.Transport, transport.Config{Limits: timeouts.Limits{Header: limit}})
				_, err := (&http.Client{Transport: rt}).Get(server.URL)
				want := &timeouts.Error{Phase: timeouts.Header, Limit: limit}
				var got *timeouts.Error
				require.ErrorAs(t, err, &got)
				assert.Equal(t, want, got)

				span := onlySpan(t, spans)
				assert.Equal(t, limit, span.EndTime().Sub(span.StartTime()))
				assert.Equal(t, codes.Error, span.Status().Code)
				if above {
					assert.Equal(t, want.Error(), span.Status().Description)
				} else {
					assert.Equal(t, context.DeadlineExceeded.Error(), span.Status().Description)
				}
			})
		})
		t.Run("body", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				spans.Reset()
				server := httptestutil.NewServer(t, http.HandlerFunc(stall))
				rt, gate := l.around(t, server.Transport, transport.Config{Limits: timeouts.Limits{Idle: limit}})
				resp, err := (&http.Client{Transport: rt}).Get(server.URL)
				require.NoError(t, err)
				_, err = io.ReadAll(resp.Body)
				want := &timeouts.Error{Phase: timeouts.Idle, Limit: limit}
				require.Equal(t, want, err)
				assert.EqualValues(t, 1, gate.Breaker.Stats().Failed)

				// Below, the limit closes the body of otelhttp; above, the caller does.
				synctest.Wait()
				if above {
					require.Empty(t, spans.Ended())
				} else {
					onlySpan(t, spans)
				}
				resp.Body.Close()
				span := onlySpan(t, spans)
				assert.Equal(t, limit, span.EndTime().Sub(span.StartTime()))
				if above {
					assert.Equal(t, codes.Error, span.Status().Code)
					assert.Equal(t, want.Error(), span.Status().Description)
				}
			})
		})
	})
}

func TestOtelSpanShowsABrokenBody(t *testing.T) {
	aboveAndBelow(t, func(t *testing.T, _ bool, l layering, spans *tracetest.SpanRecorder) {
		overBothProtocols(t, func(t *testing.T, serve serve) {
			spans.Reset()
			server := serve(breakOff)
			rt, gate := l.around(t, server.base(), transport.Config{})
			resp, err := (&http.Client{Transport: rt}).Get(server.URL)
			require.NoError(t, err)
			_, broken := io.ReadAll(resp.Body)
			require.Error(t, broken)
			resp.Body.Close()

			span := onlySpan(t, spans)
			assert.Equal(t, codes.Error, span.Status().Code)
			assert.Equal(t, broken.Error(), span.Status().Description)
			assert.EqualValues(t, 1, gate.Breaker.Stats().Failed)
		})
	})
}

func TestOtelSpanOfAnUpgradeEndsWithItsConnection(t *testing.T) {
	aboveAndBelow(t, func(t *testing.T, _ bool, l layering, spans *tracetest.SpanRecorder) {
		server := serveHTTP1(t)(switchToEcho)
		rt, _ := l.around(t, server.base(), transport.Config{Classify: policy.ServerErrors})
		resp, err := (&http.Client{Transport: rt}).Do(newUpgrade(t, server.URL))
		require.NoError(t, err)
		defer resp.Body.Close()
		requireEcho(t, resp.Body)
		require.Empty(t, spans.Ended())

		resp.Body.Close()
		assert.EqualValues(t, 101, attributeOf(onlySpan(t, spans), "http.response.status_code").AsInt64())
	})
}
