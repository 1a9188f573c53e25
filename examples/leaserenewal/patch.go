package leaserenewal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	defaultExpiryField = "spec.shutdownTime"

	answerCharacters = 500

	// What is read of an answer, so that its connection can be used again.
	mostOfAnswer    = 16 << 10 // bytes
	longestOfAnswer = time.Second
)

// Object is what [Patch] renews: a resource of a REST API, such as that of
// Kubernetes.
type Object struct {
	// URL is where the object is: an absolute http or https URL. User info in it is
	// sent as Basic authorization, if there is no Token. Neither that nor the query
	// is ever part of an error. Required.
	URL string

	// ExpiryField is the path of the field that holds the expiry: the keys that
	// lead to it, with a dot between two. Keys that have a dot in them cannot be
	// named. Default "spec.shutdownTime".
	ExpiryField string

	// Token, if not nil, returns the bearer token. It is asked before each request,
	// with the context of that attempt, so a token that expires may be replaced at
	// any time. An empty token is an error.
	Token func(context.Context) (string, error)
}

// Validate reports every field that is outside its range, joined in one error.
func (o Object) Validate() error {
	var faults []error
	if u, err := url.Parse(o.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		faults = append(faults, errors.New("leaserenewal: Object.URL (not shown, it may hold a secret); accepted: an absolute http or https URL"))
	}
	if field := o.expiryField(); !utf8.ValidString(field) || slices.Contains(strings.Split(field, "."), "") {
		faults = append(faults, fmt.Errorf("leaserenewal: Object.ExpiryField is %q; accepted: keys with a dot between two, such as spec.lifecycle.shutdownTime, or empty for %s", field, defaultExpiryField))
	}
	return errors.Join(faults...)
}

func (o Object) expiryField() string {
	if o.ExpiryField == "" {
		return defaultExpiryField
	}
	return o.ExpiryField
}

// StatusError says that a renewal was answered with a status that is not 2xx. If
// that is 404 or 410, the object is gone, and the error matches [ErrGone].
type StatusError struct {
	Code int
	// Answer is what the server said: the first 500 characters of the content. The
	// token and the parts of the URL that may be secret are left out of it.
	Answer string
}

// Error returns the status and, quoted, the answer.
func (e *StatusError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("status %d %s", e.Code, http.StatusText(e.Code))) + fmt.Sprintf(", answer %q", e.Answer)
}

// Is reports whether target is ErrGone, and the object is gone.
func (e *StatusError) Is(target error) bool {
	return target == ErrGone && (e.Code == http.StatusNotFound || e.Code == http.StatusGone)
}

// Patch returns a function for Config.Renew that sends a JSON merge patch (RFC 7396)
// with the expiry, and nothing else, to obj. The expiry is in UTC, in the form of
// RFC 3339 with as many digits of a second as it has. A nil client is
// http.DefaultClient.
//
// Any 2xx is a success. Every other status is a [*StatusError]: redirects too, which
// are not followed, whatever client says. If obj is not valid, the function returns
// what [Object.Validate] returns.
//
// An answer is read before the function returns, up to 16 KiB and for up to 1 s, or half
// of the time that is left, so that the next renewal can use the same connection.
//
// The deadline is that of the function's context; client needs none. Many leases may
// share one client: see [BreakerConfig].
func Patch(client *http.Client, obj Object) func(ctx context.Context, expiry time.Time) error {
	if err := obj.Validate(); err != nil {
		return func(context.Context, time.Time) error { return err }
	}
	if client == nil {
		client = http.DefaultClient
	}
	own := *client
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return func(ctx context.Context, expiry time.Time) error {
		return obj.patch(ctx, &own, expiry)
	}
}

func (o Object) patch(ctx context.Context, client *http.Client, expiry time.Time) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := o.request(ctx, expiry)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return o.failed(req, withoutURL(err))
	}
	defer resp.Body.Close()
	answer := readAnswer(ctx, resp.Body, cancel)
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return o.failed(req, &StatusError{resp.StatusCode, firstCharacters(withoutSecrets(answer, req))})
	}
	return nil
}

func (o Object) request(ctx context.Context, expiry time.Time) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPatch, o.URL, bytes.NewReader(mergePatch(o.expiryField(), expiry)))
	if err != nil {
		return nil, fmt.Errorf("leaserenewal: no request: %w", withoutURL(err))
	}
	req.Header.Set("Content-Type", "application/merge-patch+json")
	req.Header.Set("Accept", "application/json")
	if o.Token != nil {
		token, err := o.Token(ctx)
		if err == nil && token == "" {
			err = errors.New("it is empty")
		}
		if err != nil {
			return nil, fmt.Errorf("leaserenewal: no token: %w", withoutURL(err))
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return req, nil
}

// mergePatch returns the patch that moves the expiry alone.
func mergePatch(field string, expiry time.Time) []byte {
	var patch any = expiry.UTC().Format(time.RFC3339Nano)
	for _, key := range slices.Backward(strings.Split(field, ".")) {
		patch = map[string]any{key: patch}
	}
	body, _ := json.Marshal(patch) // strings and maps of them: there is no error
	return body
}

// readAnswer reads what the connection needs to be used again, within limits. If the
// answer keeps coming, giveUp ends it, well before the deadline of ctx: the status has
// arrived, and must not be lost for the sake of the rest.
func readAnswer(ctx context.Context, body io.Reader, giveUp context.CancelFunc) string {
	longest := longestOfAnswer
	if deadline, ok := ctx.Deadline(); ok {
		longest = min(longest, time.Until(deadline)/2)
	}
	defer time.AfterFunc(longest, giveUp).Stop()
	answer := make([]byte, mostOfAnswer)
	n, _ := io.ReadFull(body, answer) // a short or broken answer is one too
	return string(answer[:n])
}

func firstCharacters(s string) string {
	characters := []rune(s)
	return string(characters[:min(len(characters), answerCharacters)])
}

// withoutSecrets returns an answer without what the request had that is secret: there
// are servers that repeat it.
func withoutSecrets(answer string, req *http.Request) string {
	password, _ := req.URL.User.Password()
	for _, secret := range []string{req.Header.Get("Authorization"), password, req.URL.RawQuery} {
		if secret = strings.TrimPrefix(secret, "Bearer "); secret != "" {
			answer = strings.ReplaceAll(answer, secret, "[secret]")
		}
	}
	return answer
}

// failed says which renewal an error is of.
func (o Object) failed(req *http.Request, err error) error {
	return fmt.Errorf("leaserenewal: patch of %s://%s%s: %w", req.URL.Scheme, req.URL.Host, req.URL.EscapedPath(), err)
}

// withoutURL takes off the errors that name a whole URL, which may hold secrets.
func withoutURL(err error) error {
	for {
		var named *url.Error
		if !errors.As(err, &named) {
			return err
		}
		err = named.Err
	}
}
