package configstream

import (
	"cmp"
	"encoding/json"
	"strconv"
)

// Revision orders configurations: by Epoch, and within one by Rev. Both are integers of
// 64 bits, written without fraction or exponent.
type Revision struct {
	Epoch int64 // revEpoch at the top level of the document, or 0 if that is no integer
	Rev   int64 // rev
	Valid bool  // whether rev is an integer; else Epoch and Rev are 0
}

// supersedes reports whether a configuration of revision r takes the place of one of
// revision held. Without a Rev on both sides there is no order: it does.
func (r Revision) supersedes(held Revision) bool {
	return !r.Valid || !held.Valid || cmp.Or(cmp.Compare(r.Epoch, held.Epoch), cmp.Compare(r.Rev, held.Rev)) > 0
}

// revisionOf reads the revision of a document. A map takes keys to the letter, where
// the fields of a struct would take REV for rev.
func revisionOf(document []byte) Revision {
	var top map[string]json.RawMessage
	if json.Unmarshal(document, &top) != nil {
		return Revision{} // not an object
	}
	rev, ok := integer(top["rev"])
	if !ok {
		return Revision{}
	}
	epoch, _ := integer(top["revEpoch"])
	return Revision{Epoch: epoch, Rev: rev, Valid: true}
}

func integer(number json.RawMessage) (n int64, ok bool) {
	n, err := strconv.ParseInt(string(number), 10, 64)
	if err != nil {
		return 0, false // where ParseInt returns the nearest, if it is out of range
	}
	return n, true
}
