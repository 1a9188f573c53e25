package transport

import (
	"net/http"
	"slices"
)

// Middleware is the form in which RoundTrippers are composed: by [Chain], and by
// client-go and others. The method value [Gate.Wrap] has it.
type Middleware = func(http.RoundTripper) http.RoundTripper

// Chain returns base wrapped in each mw. The first listed is the outermost: it
// sees a request first, and its response last. A nil base is
// http.DefaultTransport.
func Chain(base http.RoundTripper, mw ...Middleware) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	for _, wrap := range slices.Backward(mw) {
		base = wrap(base)
	}
	return base
}
