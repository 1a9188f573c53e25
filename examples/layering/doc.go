// Package layering shows where a Gate, of package
// [github.com/respitehttp/respite/transport], goes among other libraries that wrap
// an http.RoundTripper or an http.Client. It holds no code: its tests hold
// what is said here, on real connections or, where time passes, on connections in
// memory, and its examples are there to be copied.
//
// Above means that the neighbour's base is the Gate; below, that the Gate's
// Config.Base is the neighbour. What is above sees refusals, and is what the Gate
// takes for the caller. What is below sees only the requests that are sent, and is
// what the Gate takes for the server.
//
// # golang.org/x/oauth2
//
// Prefer above: oauth2.Transport{Base: gate}. A token source that fails then never
// reaches the gate. Below, its failure counts as one of the server's, and its text
// becomes the cause of a pause, with all that it may quote of the token server's
// answer; in return, no token is asked for during a pause. Neither
// oauth2.Transport nor otelhttp.Transport hands CloseIdleConnections on: call it on
// the Gate where they are above, and on the base itself where they are below.
//
// # OpenTelemetry (otelhttp)
//
// Put otelhttp.NewTransport(gate) above to have a span for each request that the
// program makes, with the refusals and the errors of the limits in it; below, to
// have one for each request that is sent. Below, a limit shows in the span as the
// end of the context that the base got, and a limit in the body may end the span
// without an error. In both orders a span ends with its body, and there is nothing
// to set.
//
// # hashicorp/go-retryablehttp
//
// Put it above, so that each attempt counts, and set a CheckRetry that does not
// retry what matches breaker.ErrOpen: the default retries each error, refusals
// included. With Config.Wait attempts wait for the end of the pause instead, and
// one of them is the trial; the CheckRetry is still needed for requests whose
// deadline lies before that. Below, all attempts of a request, and the waits
// between them, are one request: one outcome, under one limit. Its errors quote the
// URL, which the Gate leaves out of what it logs.
//
// # WebSocket clients (coder/websocket)
//
// Give the client an http.Client with the Gate, and set Config.Classify to
// policy.ServerErrors: with the default, policy.Only200, the answer 101 is a
// failure. The limits end with that answer, so a connection may last.
//
// # httputil.ReverseProxy
//
// The Gate is its Transport; policy.ServerErrors suits it best, as a 404 or a 304
// of the backend says that it works. A refusal becomes 502, as every error does,
// unless an ErrorHandler reads breaker.OpenError.Remaining and answers 503 with
// Retry-After. A visitor who leaves is no failure. Responses that stream for longer
// than 60 s need a negative Limits.Total.
//
// # jarcoal/httpmock
//
// An httpmock.NewMockTransport goes where the server was: into Config.Base. The
// steps of package httptestutil are responders. A request without a responder is a
// failure. In a bubble of testing/synctest pauses take no time and are exact.
//
// # Chains and API clients
//
// transport.Chain takes the neighbours and gate.Wrap in one line, the
// outermost first. Where a library asks for a func(http.RoundTripper)
// http.RoundTripper, as client-go's rest.Config.Wrap does, gate.Wrap is one: all
// transports that come of it share one breaker.
package layering
