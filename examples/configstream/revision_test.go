package configstream

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// S8: what is no integer of 64 bits is no revision, or the epoch 0.
func TestS8RevisionOf(t *testing.T) {
	for document, want := range map[string]Revision{
		`{"rev":5}`:                                 {0, 5, true},
		`{"rev":-5,"revEpoch":-1}`:                  {-1, -5, true},
		`{"rev":9223372036854775807}`:               {0, 1<<63 - 1, true},
		`{"rev":9223372036854775808}`:               {},
		`{"rev":-9223372036854775809}`:              {},
		`{"rev":5.0}`:                               {},
		`{"rev":5e0}`:                               {},
		`{"rev":"5"}`:                               {},
		`{"rev":null,"revEpoch":1}`:                 {},
		`{"rev":5,"revEpoch":1e3}`:                  {0, 5, true},
		`{"rev":5,"revEpoch":4294967296}`:           {1 << 32, 5, true},
		`{"rev":5,"revEpoch":99999999999999999999}`: {0, 5, true},
		`[5]`: {},
		`5`:   {},
	} {
		assert.Equal(t, want, revisionOf([]byte(document)), document)
	}
}
