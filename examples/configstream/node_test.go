package configstream

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func resolve(t *testing.T, address, path string) (node, error) {
	t.Helper()
	p, ok := parsePath(path)
	require.True(t, ok, path)
	return parseNode(address, p)
}

// S5: nodes are base URLs, or hosts of any kind without a scheme.
func TestS5Addresses(t *testing.T) {
	for _, test := range []struct{ address, path, url, name, host string }{
		{"http://10.0.0.1:8091", "", "http://10.0.0.1:8091/", "http://10.0.0.1:8091", "10.0.0.1"},
		{"10.0.0.1:8091", "", "http://10.0.0.1:8091/", "http://10.0.0.1:8091", "10.0.0.1"},
		{"10.0.0.1", "/s", "http://10.0.0.1/s", "http://10.0.0.1", "10.0.0.1"},
		{"https://node1.example.com:18091", "/s", "https://node1.example.com:18091/s", "https://node1.example.com:18091", "node1.example.com"},
		{"HTTPS://node1", "/s", "https://node1/s", "https://node1", "node1"},
		{"localhost:8091", "/s", "http://localhost:8091/s", "http://localhost:8091", "localhost"},
		{"node1", "s/t", "http://node1/s/t", "http://node1", "node1"},
		{"::1", "/s", "http://[::1]/s", "http://[::1]", "::1"},
		{"[::1]", "/s", "http://[::1]/s", "http://[::1]", "::1"},
		{"[::1]:8091", "/s", "http://[::1]:8091/s", "http://[::1]:8091", "::1"},
		{"https://[2001:db8::1]:18091/", "/s", "https://[2001:db8::1]:18091/s", "https://[2001:db8::1]:18091", "2001:db8::1"},
		{"fe80::1%eth0", "/s", "http://[fe80::1%25eth0]/s", "http://[fe80::1%eth0]", "fe80::1%eth0"},
		{"[fe80::1%eth0]:8091", "/s", "http://[fe80::1%25eth0]:8091/s", "http://[fe80::1%eth0]:8091", "fe80::1%eth0"},
		{"http://[fe80::1%25eth0]:8091", "/s", "http://[fe80::1%25eth0]:8091/s", "http://[fe80::1%eth0]:8091", "fe80::1%eth0"},
		{"[fe80::1%eth0]", "/s", "http://[fe80::1%25eth0]/s", "http://[fe80::1%eth0]", "fe80::1%eth0"},
		{"[fe80::1%25eth0]:1/base", "/s", "http://[fe80::1%25eth0]:1/base/s", "http://[fe80::1%eth0]:1", "fe80::1%eth0"},
		{"fe80::1%254", "/s", "http://[fe80::1%25254]/s", "http://[fe80::1%254]", "fe80::1%254"},
		{"[fe80::1%25]:8091", "/s", "http://[fe80::1%2525]:8091/s", "http://[fe80::1%25]:8091", "fe80::1%25"},
		{"10.0.0.1:8091?x=http://y", "/s", "http://10.0.0.1:8091/s?x=http://y", "http://10.0.0.1:8091", "10.0.0.1"},
		{"h//x", "/a//b/../c", "http://h//x/a//b/../c", "http://h", "h"},
		{"http://u:p@h/base/", "/s/?x=1", "http://u:p@h/base/s/?x=1", "http://h", "h"},
		{"h/base?x=1#f", "/s?y=2", "http://h/base/s?x=1&y=2", "http://h", "h"},
		{"h?x=1", "", "http://h/?x=1", "http://h", "h"},
		{"h", "?y=2", "http://h/?y=2", "http://h", "h"},
		{"h/a%2Fb", "/c%2Fd", "http://h/a%2Fb/c%2Fd", "http://h", "h"},
	} {
		n, err := resolve(t, test.address, test.path)
		require.NoError(t, err, test.address)
		assert.Equal(t, []string{test.url, test.name, test.host}, []string{n.url, n.name, n.host}, test.address)
	}
	for _, address := range []string{
		"", "http://", "http:///x", ":8091", "http://:8091", "ftp://h", "file:///etc/passwd", "h:port",
		"http://[::1", "http://h h", "http://h/?a b", "http://%zz", "unix://x", "\x00", "http:h", "http:/10.0.0.1:8091", "https:", "h:", "http://user:secret@",
	} {
		_, err := resolve(t, address, "")
		assert.EqualError(t, err, "its address is neither an http or https URL nor a host", address)
	}
}

// S5: $HOST is the host; an IPv6 address has brackets where a colon follows.
func TestS5Expand(t *testing.T) {
	for _, test := range []struct{ address, document, want string }{
		{"10.0.0.1:8091", `["$HOST:11210","$HOST"]`, `["10.0.0.1:11210","10.0.0.1"]`},
		{"[::1]:8091", `["$HOST:11210","$HOST"]`, `["[::1]:11210","::1"]`},
		{"[::1]:8091", `["http://$HOST:8091/$HOST/","[$HOST]:1","$HOST$HOST:"]`, `["http://[::1]:8091/::1/","[::1]:1","::1[::1]:"]`},
		{"fe80::1%eth0", `["$HOST:1"]`, `["[fe80::1%eth0]:1"]`},
		{"node1", `{"$HOST":"$HOSTNAME $host $ HOST $HOS"}`, `{"node1":"node1NAME $host $ HOST $HOS"}`},
		{"node1", `{"x":1}`, `{"x":1}`},
		{"http://$HOST:1", `["$HOST:2"]`, `["$HOST:2"]`},
		{`http://a"b:1`, `["$HOST:2"]`, `["a\"b:2"]`},
	} {
		n, err := resolve(t, test.address, "")
		require.NoError(t, err)
		assert.Equal(t, test.want, string(n.expand([]byte(test.document))), test.address)
	}
}

// Whatever the node and the document, what is JSON stays JSON, and nothing but $HOST
// changes.
func FuzzExpand(f *testing.F) {
	f.Add("[::1]:8091", `["$HOST:1","$HOST"]`)
	f.Add("http://$HOST$HOST:", `{"$HOST":"\\$HOST"}`)
	f.Add(`a"b`, `"$HOST"`)
	f.Add("HOST", `"$$HOST:$HOST"`)
	f.Add("h", `"\u0024HOST"`)
	f.Fuzz(func(t *testing.T, address, document string) {
		n, err := resolve(t, address, "")
		if err != nil || !json.Valid([]byte(document)) {
			return
		}
		quoted, err := json.Marshal(n.host)
		require.NoError(t, err)
		host := string(quoted[1 : len(quoted)-1])
		parts := strings.Split(document, "$HOST")
		want := parts[0]
		for _, part := range parts[1:] {
			if strings.Contains(host, ":") && strings.HasPrefix(part, ":") {
				want += "[" + host + "]" + part
			} else {
				want += host + part
			}
		}
		got := n.expand([]byte(document))
		require.Equal(t, want, string(got))
		require.True(t, json.Valid(got), "%s", got)
	})
}

// An address that is taken leads to a request, to the host that $HOST will stand for.
func FuzzAddress(f *testing.F) {
	for _, address := range []string{"10.0.0.1:8091", "::1", "[fe80::1%eth0]:1", "https://u:p@h/x?y#z", "h:", "//h", "http://h/%2F/..", "a:b"} {
		f.Add(address, "/s?x")
	}
	f.Fuzz(func(t *testing.T, address, path string) {
		p, ok := parsePath(path)
		if !ok {
			return
		}
		n, err := parseNode(address, p)
		if err != nil {
			require.Equal(t, errAddress, err)
			return
		}
		require.NotEmpty(t, n.host)
		req, err := http.NewRequest(http.MethodGet, n.url, nil)
		require.NoError(t, err)
		require.Equal(t, n.host, req.URL.Hostname())
		require.Contains(t, []string{"http", "https"}, req.URL.Scheme)
		require.Empty(t, req.URL.Fragment)
		named, err := url.Parse(strings.ReplaceAll(n.name, "%", "%25"))
		if err == nil {
			require.Nil(t, named.User)
		}
	})
}
