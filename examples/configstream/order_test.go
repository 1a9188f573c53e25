package configstream_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/respitehttp/respite/examples/configstream"
)

type refuses func(*http.Request) (*http.Response, error)

func (f refuses) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// D54: the node that was tried last is not the first of the next round, also if in
// between there were no nodes.
func TestD54LastNodeIsNotNextAfterARoundWithoutNodes(t *testing.T) {
	for range 30 {
		synctest.Test(t, func(t *testing.T) {
			var tried []string
			rounds := 0
			ctx, cancel := context.WithCancel(t.Context())
			listener, err := configstream.New(configstream.Config{
				Nodes: func(context.Context) ([]string, error) {
					switch rounds++; rounds {
					case 2:
						return nil, errors.New("no nodes")
					case 4:
						cancel()
					}
					return []string{"a.example", "b.example", "c.example"}, nil
				},
				Path: "/stream",
				Transport: refuses(func(req *http.Request) (*http.Response, error) {
					tried = append(tried, req.URL.Host)
					time.Sleep(time.Millisecond)
					return nil, errors.New("refused")
				}),
				Logger: slog.New(slog.DiscardHandler),
			})
			require.NoError(t, err)
			require.Equal(t, context.Canceled, listener.Run(ctx))
			require.Len(t, tried, 6)
			require.NotEqual(t, tried[2], tried[3])
		})
	}
}
