// Package policy decides what the outcome of an HTTP request says about the
// server: whether it works, fails, or nothing at all.
//
// A [Classifier] is any function of that form. Choose the one that fits what the
// server answers when all is well:
//
//   - [Only200], the strictest, for endpoints that answer 200 and nothing else,
//     such as a receiver of usage data;
//   - [ServerErrors], for all else: REST APIs where 201, 204, 304 and 404 are
//     answers, sites that redirect, WebSocket servers that answer 101;
//   - [StatusIn], for a list of one's own.
//
// An outcome never changes what the caller gets: the response or error is handed
// on as it is.
package policy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// Outcome is what a request says about the server.
type Outcome int

const (
	Ignored Outcome = iota // nothing: the caller gave up before there was an answer
	Success                // it works
	Failure                // it fails
)

// String returns "ignored", "success" or "failure".
func (o Outcome) String() string {
	switch o {
	case Ignored:
		return "ignored"
	case Success:
		return "success"
	case Failure:
		return "failure"
	}
	return fmt.Sprintf("Outcome(%d)", int(o))
}

// Classifier decides the outcome of a request from the request as the caller gave
// it, and the response or the error that came of it. Of resp and err one is nil.
// It is called once the response header has arrived, must not read the body, and
// must be safe for concurrent use.
//
// It decides alone. To count something else than the classifiers of this package
// do, write a function that decides that and leaves the rest to one of them:
//
//	func(req *http.Request, resp *http.Response, err error) policy.Outcome {
//		if err == nil && resp.StatusCode == http.StatusNotFound {
//			return policy.Success
//		}
//		return policy.Only200(req, resp, err)
//	}
type Classifier func(req *http.Request, resp *http.Response, err error) Outcome

// Only200 takes status 200 for a success, and every other status for a failure:
// also 201, 204, 304 and the redirects. An error is a failure, unless the caller
// gave up ([CallerGaveUp]).
//
// An http.Client follows redirects above its transport, so each hop is a request
// of its own: a 302 that leads to a 200 is one failure and one success. Where the
// server redirects, or upgrades connections (101), choose [ServerErrors].
func Only200(req *http.Request, resp *http.Response, err error) Outcome {
	return classify(req, resp, err, func(status int) bool { return status == http.StatusOK })
}

// ServerErrors takes 5xx and 429 (Too Many Requests) for failures, and every other
// status for a success. An error is a failure, unless the caller gave up
// ([CallerGaveUp]).
func ServerErrors(req *http.Request, resp *http.Response, err error) Outcome {
	return classify(req, resp, err, func(status int) bool {
		return status != http.StatusTooManyRequests && (status < 500 || status > 599)
	})
}

// StatusIn returns a classifier that takes the given status codes for successes,
// and every other for a failure; without a code all are failures. An error is a
// failure, unless the caller gave up ([CallerGaveUp]).
func StatusIn(codes ...int) Classifier {
	codes = slices.Clone(codes)
	return func(req *http.Request, resp *http.Response, err error) Outcome {
		return classify(req, resp, err, func(status int) bool { return slices.Contains(codes, status) })
	}
}

func classify(req *http.Request, resp *http.Response, err error, good func(status int) bool) Outcome {
	switch {
	case err != nil && CallerGaveUp(req):
		return Ignored
	case err == nil && resp != nil && good(resp.StatusCode):
		return Success
	}
	return Failure
}

// CallerGaveUp reports whether an error of the request is the caller's own doing:
// its context was cancelled, with whatever cause, or the deprecated
// [http.Request.Cancel] was closed before the context's deadline.
//
// A deadline that the caller set and that passed is no giving up: the server has
// not answered in time. http.Client.Timeout arrives that way, and in part through
// Request.Cancel, which it closes at its deadline. Nor is a cancellation that
// began below the caller, in the transport.
//
// Only the request is looked at, never the error: what net/http returns for one
// and the same event varies.
func CallerGaveUp(req *http.Request) bool {
	ctx := req.Context()
	if err := ctx.Err(); err != nil {
		return errors.Is(err, context.Canceled)
	}
	select {
	//lint:ignore SA1019 deprecated, and still what http.Client.Timeout uses
	case <-req.Cancel:
		deadline, ok := ctx.Deadline()
		return !ok || time.Now().Before(deadline)
	default:
		return false
	}
}
