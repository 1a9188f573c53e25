package transport_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/respitehttp/respite/httptestutil"
	"github.com/respitehttp/respite/transport"
)

func TestContract(t *testing.T) {
	t.Run("bare", func(t *testing.T) {
		httptestutil.TestTransport(t, func(base http.RoundTripper) http.RoundTripper { return base })
	})
	t.Run("New", func(t *testing.T) {
		httptestutil.TestTransport(t, func(base http.RoundTripper) http.RoundTripper {
			gate, err := transport.New(transport.Config{Base: base})
			require.NoError(t, err)
			return gate
		})
	})
	t.Run("New with Wait", func(t *testing.T) {
		httptestutil.TestTransport(t, func(base http.RoundTripper) http.RoundTripper {
			gate, err := transport.New(transport.Config{Base: base, Wait: true})
			require.NoError(t, err)
			return gate
		})
	})
	t.Run("literal", func(t *testing.T) {
		httptestutil.TestTransport(t, func(base http.RoundTripper) http.RoundTripper {
			return &transport.Gate{Base: base}
		})
	})
	t.Run("twice", func(t *testing.T) {
		httptestutil.TestTransport(t, func(base http.RoundTripper) http.RoundTripper {
			gate, err := transport.New(transport.Config{Base: base})
			require.NoError(t, err)
			return gate.Wrap(gate.Wrap(base))
		})
	})
}
