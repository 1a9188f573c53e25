package transport

import (
	"encoding/base64"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// hidden stands in the place of what is left out of a text.
const hidden = "[redacted]"

// Redact returns err for a log: as it is or, if its text may give away what nobody is to
// see, wrapped in an error that has "[redacted]" in the place of
//
//   - the secrets of req that [Excerpt] knows; req may be nil,
//   - URLs,
//   - text in double quotes: so net/http quotes a malformed answer, which may hold a
//     cookie,
//   - all after the first line, where others put the content of an answer, and what makes
//     the text longer than 500 characters.
//
// A secret that stands in the text in another form stays. What is wrapped can still be
// found with errors.Is and errors.As, and has the whole text. The record of [New]'s
// logger, the [breaker.Change] and the [breaker.OpenError] have errors in this form.
func Redact(req *http.Request, err error) error {
	if err == nil {
		return nil
	}
	const most = 500
	text := err.Error()
	// A beginning will do, however long the text is.
	clean := Excerpt(req, text[:min(len(text), 100*most)], math.MaxInt)
	clean, rest, _ := strings.Cut(suspicious.ReplaceAllString(clean, hidden), "\n")
	if utf8.RuneCountInString(clean) > most || strings.TrimSpace(rest) != "" {
		clean = strings.TrimSpace(Excerpt(nil, clean, most-len(hidden)-1) + " " + hidden)
	}
	if clean == text {
		return err
	}
	return &redacted{err, clean}
}

// suspicious is what encoding/json says of a quote, quoted text, to the end if that is
// missing, and a URL.
var suspicious = regexp.MustCompile(`invalid character '"'|"(?:[^"\\]|\\(?s:.))*(?:"|\\?$)|[A-Za-z][A-Za-z0-9+.-]*://\S*`)

// redacted is an error with another text.
type redacted struct {
	error
	text string
}

func (e *redacted) Error() string { return e.text }
func (e *redacted) Unwrap() error { return e.error }

// Timeout reports whether the error is a timeout: net/http asks each error for that.
func (e *redacted) Timeout() bool {
	timeout, ok := e.error.(interface{ Timeout() bool })
	return ok && timeout.Timeout()
}

// Excerpt returns the first n characters of a text that came from outside, such as the
// content of an answer, with "[redacted]" in the place of what is secret in req, where
// the text repeats it, or as much of it as the text has at its end:
//
//   - the credentials in its Authorization header,
//   - the user name and the password in its URL, and both as basic authentication has
//     them,
//   - the values of its query,
//
// each as it is in req, and as it is encoded in a URL. Other headers are not looked at,
// and a secret of fewer than 4 bytes is not looked for, since it may be a part of any
// text. The excerpt is valid UTF-8 of no more than n characters, and has nothing of what
// comes after the first n of the text. req may be nil.
func Excerpt(req *http.Request, text string, n int) string {
	secret := secretIn(text, secretsOf(req))
	var excerpt strings.Builder
	for i := 0; i < len(text) && n > 0; {
		next, end := hidden, i
		for end < len(text) && secret[end] {
			end++
		}
		if end > i {
			n -= max(len(hidden), utf8.RuneCountInString(text[i:end]))
		} else {
			r, size := utf8.DecodeRuneInString(text[i:]) // U+FFFD for an invalid byte
			next, end = string(r), i+size
			n--
		}
		if n < 0 {
			break
		}
		excerpt.WriteString(next)
		i = end
	}
	return excerpt.String()
}

const shortestSecret = 4 // bytes

// secretIn tells of each byte of text whether it belongs to a secret, or to the beginning
// of one that the end of text cuts.
func secretIn(text string, secrets []string) []bool {
	belongs := make([]bool, len(text))
	for _, secret := range secrets {
		mark(belongs, text, secret)
	}
	return belongs
}

// mark finds a secret in a text as Knuth, Morris and Pratt do: in linear time, whatever a
// server answers, with occurrences that overlap, and the beginning of one at the end.
func mark(belongs []bool, text, secret string) {
	border := make([]int, len(secret)+1) // of the first n bytes: as many end as they begin
	next := func(matched int, c byte) int {
		for matched == len(secret) || matched > 0 && secret[matched] != c {
			matched = border[matched]
		}
		if secret[matched] == c {
			matched++
		}
		return matched
	}
	for i := 1; i < len(secret); i++ {
		border[i+1] = next(border[i], secret[i])
	}
	matched, marked := 0, 0
	for i := range len(text) {
		matched = next(matched, text[i])
		if matched == len(secret) || i == len(text)-1 && matched >= shortestSecret {
			for marked = max(marked, i+1-matched); marked <= i; marked++ {
				belongs[marked] = true
			}
		}
	}
}

// secretsOf returns what is secret in a request.
func secretsOf(req *http.Request) []string {
	if req == nil {
		return nil
	}
	var secrets []string
	add := func(secret string) {
		for _, form := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret), url.User(secret).String()} {
			if len(form) >= shortestSecret && !slices.Contains(secrets, form) {
				secrets = append(secrets, form)
			}
		}
	}
	for _, authorization := range req.Header.Values("Authorization") {
		fields := strings.Fields(authorization)
		if len(fields) > 1 {
			fields = fields[1:] // without the scheme
		}
		for _, field := range fields {
			add(field)
		}
	}
	if req.URL == nil {
		return secrets
	}
	if user := req.URL.User; user != nil {
		password, _ := user.Password()
		add(user.Username())
		add(password)
		add(base64.StdEncoding.EncodeToString([]byte(user.Username() + ":" + password)))
	}
	for parameter := range strings.SplitSeq(req.URL.RawQuery, "&") {
		_, value, ok := strings.Cut(parameter, "=")
		if !ok {
			value = parameter
		}
		add(value)
		if decoded, err := url.QueryUnescape(value); err == nil {
			add(decoded)
		}
	}
	return secrets
}
