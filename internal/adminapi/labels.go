package adminapi

import (
	"context"
	"errors"

	"github.com/purserpay/purser/pay"
)

// nameKeys adds the labels of keys to the rows of a page. fields returns a row's key, and the place of its
// label.
func nameKeys[T any](p *Purser, ctx context.Context, rows []T, fields func(*T) (keyID string, label *string)) error {
	known := map[string]string{}
	for i := range rows {
		id, label := fields(&rows[i])
		text, asked := known[id]
		if !asked && id != "" {
			k, err := p.Books.Key(ctx, id)
			if err != nil && !errors.Is(err, pay.ErrKeyNotFound) {
				return err
			}
			text, known[id] = k.Label, k.Label
		}
		*label = text
	}
	return nil
}
