package books

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/purserpay/purser/pay"
)

// ApprovalsIn lists approvals of a scope's keys: see [pay.Approvals]. q selects no organization.
// ErrKeyNotFound for a key, and ErrApprovalNotFound for a q.Before, that the scope does not see.
func (b *Books) ApprovalsIn(ctx context.Context, s Scope, q pay.ApprovalQuery) ([]pay.Approval, error) {
	switch {
	case q.KeyID != "":
		if _, err := b.KeyIn(ctx, s, q.KeyID); err != nil {
			return nil, err
		}
	case !s.all && s.organization == "":
		return nil, nil
	case !s.all:
		q.OrganizationID = s.organization
	}
	if q.Before != "" {
		if _, err := b.ApprovalIn(ctx, s, q.Before); err != nil {
			return nil, err
		}
	}
	if q.Now.IsZero() {
		q.Now = b.now()
	}
	return b.reader.Approvals(ctx, q)
}

// ApprovalIn finds an approval of one of a scope's keys: ErrApprovalNotFound, also for one that the
// scope does not see.
func (b *Books) ApprovalIn(ctx context.Context, s Scope, id string) (pay.Approval, error) {
	a, err := b.reader.Approval(ctx, id)
	if err != nil {
		return pay.Approval{}, err
	}
	if _, err := b.KeyIn(ctx, s, a.KeyID); errors.Is(err, pay.ErrKeyNotFound) {
		return pay.Approval{}, pay.ErrApprovalNotFound
	} else if err != nil {
		return pay.Approval{}, err
	}
	return a, nil
}

const (
	// approvalLinks has the id under which the secret of approval links is kept, beside the sessions,
	// whose data the store seals. No token has this hash.
	approvalLinks = "secret of the links that answer approvals"
	// linkSecretSize is the size of that secret, in bytes.
	linkSecretSize = 32
)

// ApprovalLinkSecret returns the secret that signs the links of approvals. The first call makes it.
func (b *Books) ApprovalLinkSecret(ctx context.Context) ([]byte, error) {
	sum := sha256.Sum256([]byte(approvalLinks))
	id := hex.EncodeToString(sum[:])
	s, err := b.Session(ctx, id)
	if errors.Is(err, pay.ErrSessionNotFound) {
		secret := make([]byte, linkSecretSize)
		rand.Read(secret) //nolint:errcheck // it cannot fail
		if err = b.store.PutSession(ctx, pay.Session{ID: id, Data: secret, Expires: b.now().UTC().Add(operatorsEndKept)}); err == nil {
			s, err = b.Session(ctx, id) // another node may have made it
		}
	}
	if err == nil && len(s.Data) != linkSecretSize {
		err = errors.New("it has another size")
	}
	if err != nil {
		return nil, fmt.Errorf("the secret of approval links: %w", err)
	}
	return s.Data, nil
}
