package layering_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"golang.org/x/oauth2"

	"github.com/respitehttp/respite/policy"
	"github.com/respitehttp/respite/transport"
)

// A span for each request, refused ones included; then the Gate; then a token, for
// those that are sent. Config.Base stays empty: Chain says what the base is.
func Example_chain() {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println("Authorization:", r.Header.Get("Authorization"))
	}))
	defer server.Close()

	gate, err := transport.New(transport.Config{Classify: policy.ServerErrors})
	if err != nil {
		fmt.Println(err)
		return
	}
	tracing := func(base http.RoundTripper) http.RoundTripper { return otelhttp.NewTransport(base) }
	oauth := func(base http.RoundTripper) http.RoundTripper {
		return &oauth2.Transport{Base: base, Source: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "token"})}
	}
	client := &http.Client{Transport: transport.Chain(http.DefaultTransport, tracing, gate.Wrap, oauth)}

	resp, err := client.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
	// Output:
	// Authorization: Bearer token
	// 200 OK
}
