package adminapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/purserpay/purser/internal/operatorkeys"
	"github.com/purserpay/purser/pay"
)

const (
	minPrefix    = 8 // characters that an id must begin with to be found
	searchPage   = 1000
	searchKeys   = 100_000 // read at most
	shownMatches = 5       // in a refusal
)

// find returns a key by its id, or the exec key by "exec". A label or an id's prefix finds a key if it
// fits no other key. Clients choose labels, so purser never decides between two keys.
func (p *Purser) find(ctx context.Context, name string) (k pay.Key, err error) {
	if name == operatorkeys.ExecLabel {
		if k, err = p.Keys.FindExec(ctx); errors.Is(err, pay.ErrKeyNotFound) {
			return k, Errorf(http.StatusNotFound, "there is no exec key yet: it is made when it is first used or limited")
		}
	} else if k, err = p.Books.Key(ctx, name); errors.Is(err, pay.ErrKeyNotFound) {
		return p.search(ctx, name)
	}
	return k, err
}

// search finds the only key with this label or id prefix. A full UUID is never tried as a label: a
// mistyped id must not match another key's label.
func (p *Purser) search(ctx context.Context, name string) (pay.Key, error) {
	unknown := Errorf(http.StatusNotFound, "no key has the id or label %.64q", name)
	if _, err := uuid.Parse(name); err == nil || name == "" {
		return pay.Key{}, unknown
	}
	prefix := ""
	if len(name) >= minPrefix {
		prefix = strings.ToLower(name) // as ids are
	}
	var found []pay.Key
	for after, seen := "", 0; ; {
		keys, err := p.Books.Keys(ctx, after, searchPage)
		if err != nil {
			return pay.Key{}, err
		}
		for _, k := range keys {
			if k.Label == name || prefix != "" && strings.HasPrefix(k.ID, prefix) {
				found = append(found, k)
			}
		}
		if len(keys) < searchPage || len(found) > shownMatches {
			break
		}
		after = keys[len(keys)-1].ID
		if seen += len(keys); seen >= searchKeys {
			return pay.Key{}, Errorf(http.StatusConflict, "there are too many keys to look for %.64q among: give the whole id", name)
		}
	}
	switch len(found) {
	case 0:
		return pay.Key{}, unknown
	case 1:
		return found[0], nil
	}
	return pay.Key{}, Errorf(http.StatusConflict, "%.64q is not one key: give the whole id of %s", name, alternatives(found))
}

func alternatives(keys []pay.Key) string {
	var list []string
	for _, k := range keys[:min(len(keys), shownMatches)] {
		text := k.ID
		if k.Label != "" {
			text += fmt.Sprintf(" (%.40q)", k.Label)
		}
		list = append(list, text)
	}
	if len(keys) > shownMatches {
		list = append(list, "others")
	}
	last := len(list) - 1
	return strings.Join(list[:last], ", ") + " or " + list[last]
}
