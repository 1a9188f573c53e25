// Package transport gives an http.Client a back-off that really backs off, by its
// transport alone:
//
//	gate, err := transport.New(transport.Config{Classify: policy.ServerErrors})
//	if err != nil {
//		return err
//	}
//	client := &http.Client{Transport: gate}
//
// Each request then has a deadline, its outcome is classified, and when too many
// fail, sending pauses: requests are refused at once with a [*breaker.OpenError]
// until a single one is let through as a trial, and for longer each time that the
// trial fails. What a failure is, is for Config.Classify to say; by default, every
// status but 200 is one, 201 and redirects too.
//
// # The chain
//
// [New] builds three layers, from the outside in:
//
//  1. [Gate] asks the breaker whether the request may be made, and tells it what
//     came of it.
//  2. [timeouts.Transport] ends a request whose time is over.
//  3. Config.Base sends it.
//
// The gate is outside the deadline, because a request that ran out of time is a
// failure that the breaker must see, and one that is refused must not cost even a
// timer. [Gate.Wrap] puts the same gate and limits around another base. [Chain]
// composes them with other middleware.
//
// # One breaker, one server
//
// A Gate has one breaker for all requests that pass it. It stands for one service
// that is healthy or not as a whole; make a Gate for each one that a program
// calls.
//
// # Retries
//
// Put a client that retries outside of the gate, so that each attempt counts, and
// tell it not to retry an error that matches [breaker.ErrOpen]; or set Config.Wait,
// and attempts wait for the end of the pause. A Retry-After header is not read: the
// pause goes by the breaker's settings alone.
//
// # Deadlines
//
// Do not set http.Client.Timeout: it covers the time that Config.Wait waits, it
// turns the error of the limit into one that tells less, and for a transport that
// is not net/http's own it costs a goroutine for each request. Use Config.Limits,
// and for a single request its context or [timeouts.WithLimits].
package transport
