package transport_test

import (
	"encoding/base64"
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/respitehttp/respite/transport"
)

func requestWith(t require.TestingT, url, authorization string) *http.Request {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	require.NoError(t, err)
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	return req
}

// D59: what is secret in a request, in the forms in which it is sent, and decoded.
func TestD59SecretsInAnAnswer(t *testing.T) {
	basic := base64.StdEncoding.EncodeToString([]byte("user1:p&ss wörd"))
	for _, c := range []struct{ url, authorization, content, want string }{
		{"http://h/", "Bearer xyz789", "Authorization: Bearer xyz789", "Authorization: Bearer [redacted]"},
		{"http://h/", "Bearer\txyz789 ", "Authorization: Bearer xyz789", "Authorization: Bearer [redacted]"},
		{"http://h/", `Digest user="me", response="6629fae4"`, `response="6629fae4"`, "[redacted]"},
		{"http://h/", "xyz789", "for xyz789", "for [redacted]"},
		{"http://user1:p%26ss%20w%C3%B6rd@h/", "", basic + " is user1 p&ss wörd or p&ss%20w%C3%B6rd or p%26ss+w%C3%B6rd", "[redacted] is [redacted] [redacted] or [redacted] or [redacted]"},
		{"http://user1:p%40ss%20word@h/", "", "p%40ss%20word", "[redacted]"},
		{"http://key12345@h/", "", "no such key: key12345", "no such key: [redacted]"},
		{"http://key12345:@h/", "", "no such key: key12345", "no such key: [redacted]"},
		{"http://h/?a%20token=abc%20123&b=2&sig=%3D%3D%3D%3D&key99", "", "/?a%20token=abc%20123&b=2&sig=%3D%3D%3D%3D&key99 or abc 123, ====, key99",
			"/?a%20token=[redacted]&b=2&sig=[redacted]&[redacted] or [redacted], [redacted], [redacted]"},
		{"http://h/?token=ab:cd@ef/gh", "", "ab:cd@ef/gh ab%3Acd%40ef%2Fgh", "[redacted] [redacted]"},
		{"http://h/?a=abcd&b=abcdef", "", "abcdef abcd abcde", "[redacted] [redacted] [redacted]"},
		{"http://u:0000@h/?token=000012345678", "", "a 0000012345678", "a [redacted]"},
		{"http://h/?token=abcabcabc", "", "a abcabcabcabc b", "a [redacted] b"},
		{"http://h/?token=abc+123:456", "", "abc%20123:456 abc%20123%3A456", "[redacted] [redacted]"},
		{"http://h/?token=abc123", "", "the content breaks off in abc12", "the content breaks off in [redacted]"},
		{"http://h/?token=abc123", "", "the content breaks off in abc1", "the content breaks off in [redacted]"},
		{"http://h/?token=abc123", "", "the content breaks off in abc", "the content breaks off in abc"},
		{"http://h/?a=1&b=xyz", "", "1 xyz", "1 xyz"},
		{"http://h/", "", "Bearer ", "Bearer "},
		{"http://h/?a=%zz%zz", "", "%zz%zz", "[redacted]"},
	} {
		assert.Equal(t, c.want, transport.Excerpt(requestWith(t, c.url, c.authorization), c.content, 500), "%q of %v", c.content, c.url)
	}
}

// U7, L7: the first 500 characters, never more, and none of a secret that is cut there.
func TestLengthOfAnExcerpt(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	for content, want := range map[string]string{
		x(499):                           x(499),
		x(500):                           x(500),
		x(501):                           x(500),
		strings.Repeat("ä", 501):         strings.Repeat("ä", 500),
		"\xff\xff" + x(600):              "\uFFFD\uFFFD" + x(498),
		"abc123" + x(600):                "[redacted]" + x(490),
		strings.Repeat("s", 40) + x(600): "[redacted]" + x(460),
		x(484) + "abc123-abc123":         x(484) + "[redacted]-",
		x(490) + "abc123abc123":          x(490),
		x(491) + "abc123" + x(9):         x(491),
		x(497) + "abc123":                x(497),
		strings.Repeat("abc123-", 1000):  strings.Repeat("[redacted]-", 45),
	} {
		got := transport.Excerpt(requestWith(t, "http://h/?a=abc123&b="+strings.Repeat("s", 40), ""), content, 500)
		assert.Equal(t, want, got, "%.20q of %d", content, len(content))
	}
}

// Whatever the secrets are, an excerpt has none of them, and is the beginning of the
// content otherwise.
func TestExcerptProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		secret := func(name string) string { return rapid.StringMatching("[xyz]{4,8}").Draw(rt, name) }
		first, second, third := secret("first"), secret("second"), secret("third")
		content := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"x", "y", "z", "ü", "\xff", first, second, third, strings.Repeat("-", 200)})).Draw(rt, "content"), "")
		got := transport.Excerpt(requestWith(rt, "http://user:"+first+"@h/?a="+second, "Bearer "+third), content, 500)
		assert.LessOrEqual(rt, utf8.RuneCountInString(got), 500)
		assert.NotContains(rt, got, first)
		assert.NotContains(rt, got, second)
		assert.NotContains(rt, got, third)
		begin, _, _ := strings.Cut(got, "[redacted]")
		assert.True(rt, strings.HasPrefix(strings.ToValidUTF8(strings.ReplaceAll(content, "\xff", "\uFFFD"), ""), begin))
	})
}

// An excerpt needs no request, and no URL in it.
func TestExcerptOfNoRequest(t *testing.T) {
	assert.Equal(t, "ab", transport.Excerpt(nil, "abc", 2))
	assert.Equal(t, "ab", transport.Excerpt(&http.Request{}, "abc", 2))
	assert.Empty(t, transport.Excerpt(nil, "abc", 0))
	assert.Empty(t, transport.Excerpt(nil, "abc", -1))
	assert.Empty(t, transport.Excerpt(nil, "abc", math.MinInt))
	assert.Equal(t, "abc", transport.Excerpt(nil, "abc", math.MaxInt))
}

// D59: what may be secret in an error.
func TestD59Redact(t *testing.T) {
	req := requestWith(t, "http://user:secret@h/p?q='a'&token=abc123", "Bearer xyz789")
	for text, want := range map[string]string{
		"connection refused":                                 "connection refused",
		"login as user with secret failed":                   "login as [redacted] with [redacted] failed",
		"bad token=abc123 or xyz789":                         "bad token=[redacted] or [redacted]",
		"GET http://h/p?q='a'&token=abc123: EOF":             "GET [redacted] EOF",
		"GET https://other/?sig=1, then no more":             "GET [redacted] then no more",
		`Get "http://h/?a=\"b\" c": EOF`:                     "Get [redacted]: EOF",
		`malformed HTTP response "Set-Cookie a=b" and "c`:    `malformed HTTP response [redacted] and [redacted]`,
		"answer: \"token one\nand two\" only":                "answer: [redacted] only",
		`invalid character '"' in text: "three"`:             `[redacted] in text: [redacted]`,
		"it said \"four\\\nand five\\":                       "it said [redacted]",
		"no way to http://h/it's/p?x=1&b=six here":           "no way to [redacted] here",
		strings.Repeat("x", 500):                             strings.Repeat("x", 500),
		strings.Repeat("x", 501):                             strings.Repeat("x", 489) + " [redacted]",
		"cannot fetch token: 401\nResponse: nothing for you": "cannot fetch token: 401 [redacted]",
		"\nno first line":                                    "[redacted]",
		"EOF\n":                                              "EOF",
		"bad answer '\"'three\"' here":                       "bad answer '[redacted]' here",
	} {
		err := errors.New(text)
		got := transport.Redact(req, err)
		assert.EqualError(t, got, want)
		assert.ErrorIs(t, got, err)
	}
}

// Redact keeps the error itself, and what can be told of it.
func TestRedact(t *testing.T) {
	require.NoError(t, transport.Redact(nil, nil))
	require.Equal(t, io.EOF, transport.Redact(nil, io.EOF))
	require.Equal(t, io.EOF, transport.Redact(&http.Request{}, io.EOF))
	err := transport.Redact(nil, errors.Join(io.EOF, errors.New("and more")))
	require.EqualError(t, err, "EOF [redacted]")
	require.ErrorIs(t, err, io.EOF)

	several := transport.Redact(nil, uncomparable{errors.New(`"a"`)})
	require.ErrorIs(t, several, several) // and no panic
	require.EqualError(t, transport.Redact(nil, errors.New(strings.Repeat("x\n", 10<<20))), "x [redacted]")

	for cause, want := range map[error]bool{os.ErrDeadlineExceeded: true, io.EOF: false} {
		err := transport.Redact(nil, &url.Error{Op: "Get", URL: "http://h/", Err: cause})
		require.Equal(t, want, (&url.Error{Err: err}).Timeout())
	}
}

type uncomparable []error

func (u uncomparable) Error() string { return errors.Join(u...).Error() }
