package answer_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/respitehttp/respite/examples/internal/answer"
)

func TestURLFault(t *testing.T) {
	for url, want := range map[string]string{
		"http://h":                    "",
		"HTTPS://user:secret@[::1]:1": "",
		"http://h/a b?c+d%20e#f g":    "",
		"http://h/?c d":               "has a space in its query",
		"":                            "is empty",
		"new.ashx":                    "is not an absolute URL",
		"localhost:8080/x":            "is not an absolute URL",
		"tok3n:x@api.example.com/":    "is not an absolute URL",
		"//h/x":                       `has the scheme ""`,
		"ftp://h/":                    `has the scheme "ftp"`,
		"http:///x":                   "has no host",
		"http://:80/":                 "has no host",
		"http://user:secret@h:port/":  "is not a URL (it is not shown, since it may hold a password)",
	} {
		assert.Equal(t, want, answer.URLFault(url), "%q", url)
	}
}
