package caddymodule

// No Caddy here: it rotates the authority in whatever storage Caddy gives it.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/purserpay/purser/internal/adminapi"
)

// generationsFile records in Caddy's storage which authorities there are; none: authorityID alone.
const generationsFile = "purser/authority.json"

// generations names authorities in Caddy's storage.
type generations struct {
	Signing string `json:"signing"`
	Next    string `json:"next,omitempty"`
}

func readGenerations(ctx context.Context, storage files) (generations, error) {
	g := generations{Signing: authorityID}
	text, err := storage.Load(ctx, generationsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return g, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &g)
	}
	if err == nil && g.Signing == "" {
		err = errors.New("no authority is named")
	}
	if err != nil {
		return g, fmt.Errorf("%s: %w", generationsFile, err)
	}
	return g, nil
}

func (a *authority) writeGenerations(ctx context.Context, g generations) error {
	text, err := json.Marshal(g)
	if err == nil {
		err = a.storage.Store(ctx, generationsFile, text)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", generationsFile, err)
	}
	a.ids = g
	return nil
}

// following names the authority after one: "purser", "purser-2", "purser-3".
func following(id string) string {
	n, err := strconv.Atoi(strings.TrimPrefix(id, authorityID+"-"))
	if err != nil {
		n = 1
	}
	return authorityID + "-" + strconv.Itoa(n+1)
}

// state tells how far a rotation is.
func (a *authority) state() *adminapi.AuthorityRotation {
	a.mu.RLock()
	defer a.mu.RUnlock()
	s := &adminapi.AuthorityRotation{Signing: a.signing.RootCertificate().Subject.CommonName, Until: a.signing.RootCertificate().NotAfter.UTC()}
	if a.next != nil {
		s.Next = a.next.RootCertificate().Subject.CommonName
	}
	return s
}

// begin makes the next authority, whose root programs get from now on beside that of the signing one.
// If there is one already, it does nothing.
func (a *authority) begin(ctx context.Context) error {
	if a.given {
		return errGivenAuthority
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.next != nil {
		return nil
	}
	id := following(a.ids.Signing)
	next, err := a.provision(id)
	if err != nil {
		return fmt.Errorf("make the next authority: %w", err)
	}
	if err := a.writeGenerations(ctx, generations{a.ids.Signing, id}); err != nil {
		return err
	}
	a.next = next
	return nil
}

// finish lets the next authority sign, and removes the former one with its keys.
func (a *authority) finish(ctx context.Context) error {
	if a.given {
		return errGivenAuthority
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.next == nil {
		return errNoNextAuthority
	}
	former := a.ids.Signing
	if err := a.writeGenerations(ctx, generations{Signing: a.ids.Next}); err != nil {
		return err
	}
	a.signing, a.next = a.next, nil
	if err := a.storage.Delete(ctx, authorityFolder(former)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the next authority signs, but the former one could not be removed from %s: %w", authorityFolder(former), err)
	}
	return nil
}
