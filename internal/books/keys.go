package books

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// KeyRequest holds the wishes for a new key.
type KeyRequest struct {
	Label          string
	Secret         string // empty: generated
	OrganizationID string // privileged
	Plan           pay.PlanName
	Policy         *policy.Policy
	Operator, Exec bool // see [pay.Key]
	Parent         string
}

// KeyBySecret finds the key with this secret, revoked or not: ErrKeyNotFound, ErrSecretReplaced.
func (b *Books) KeyBySecret(ctx context.Context, secret string) (pay.Key, error) {
	if !pay.ValidSecret(secret) {
		return pay.Key{}, pay.ErrKeyNotFound
	}
	k, err := b.reader.KeyBySecret(ctx, secret)
	return pay.Found(k, err, b.now())
}

// Keys lists keys, oldest first, from behind the one with id after ("" is the beginning);
// at most 1,000 at a time.
func (b *Books) Keys(ctx context.Context, after string, limit int) ([]pay.Key, error) {
	return b.reader.ListKeys(ctx, after, limit)
}

// checkPolicy finds the malformed field of a policy: *InputError. A nil policy is none.
func checkPolicy(pol *policy.Policy) error {
	if pol == nil {
		return nil
	}
	return inputError(pol.Validate())
}

// inputError turns the error of a policy's field into that of the input.
func inputError(err error) error {
	if malformed, is := errors.AsType[*policy.FieldError](err); is {
		return &pay.InputError{Field: malformed.Field, Reason: malformed.Reason}
	}
	return err
}

// SetPolicy gives a key its own policy, or takes it away (nil). ErrKeyNotFound, *InputError.
func (b *Books) SetPolicy(ctx context.Context, keyID string, pol *policy.Policy) (pay.Key, error) {
	if err := checkPolicy(pol); err != nil {
		return pay.Key{}, err
	}
	set := func() (pay.Key, error) { return b.store.SetPolicy(ctx, keyID, pol) }
	if pol != nil && pol.HasTotals() {
		set = func() (pay.Key, error) { return b.setTotals(ctx, keyID, pol) }
	}
	k, err := set()
	if err == nil {
		b.log.Info("policy set", "key", k.ID, "revision", k.PolicyRevision)
	}
	return k, err
}

// maxTries bounds how often a change is made again because the key was changed meanwhile.
const maxTries = 5

// setTotals sets a policy with totals, whose beginnings depend on the policy before.
func (b *Books) setTotals(ctx context.Context, keyID string, pol *policy.Policy) (k pay.Key, err error) {
	for range maxTries {
		if k, err = b.store.Key(ctx, keyID); err != nil {
			return k, err
		}
		begun, err := b.begun(k.Policy, pol)
		if err != nil {
			return k, err
		}
		if k, err = b.store.SetPolicyAt(ctx, keyID, k.PolicyRevision, begun); !errors.Is(err, pay.ErrPolicyChanged) {
			return k, err
		}
	}
	return k, pay.ErrPolicyChanged
}

// begun gives the totals of a policy their beginnings: *InputError.
func (b *Books) begun(was, pol *policy.Policy) (*policy.Policy, error) {
	begun, err := pol.Begun(was, b.now())
	return begun, inputError(err)
}

// SetPolicyAt is SetPolicy for a person who has seen the key in a revision: ErrPolicyChanged if it has
// another one by now.
func (b *Books) SetPolicyAt(ctx context.Context, keyID string, revision uint64, pol *policy.Policy) (pay.Key, error) {
	if err := checkPolicy(pol); err != nil {
		return pay.Key{}, err
	}
	if pol != nil && pol.HasTotals() {
		k, err := b.store.Key(ctx, keyID) // of another revision, the store refuses the change
		if err == nil {
			pol, err = b.begun(k.Policy, pol)
		}
		if err != nil {
			return pay.Key{}, err
		}
	}
	k, err := b.store.SetPolicyAt(ctx, keyID, revision, pol)
	if err == nil {
		by, _ := pay.ActorOf(ctx)
		b.log.Info("policy set", "key", k.ID, "revision", k.PolicyRevision, "by", by.String())
	}
	return k, err
}

// AdoptKey makes a key the operator's for good: see [pay.Key]. ErrKeyNotFound.
func (b *Books) AdoptKey(ctx context.Context, k pay.Key) (pay.Key, error) {
	if k.Operator {
		return k, nil
	}
	k, err := b.store.AdoptKey(ctx, k.ID)
	if err == nil {
		b.log.Info("key became the operator's", "key", k.ID, "revision", k.PolicyRevision)
	}
	return k, err
}

// CreateKey makes a key and returns it with its secret. *InputError, ErrKeyExists, ErrKeyLimit.
func (b *Books) CreateKey(ctx context.Context, r KeyRequest) (pay.Key, string, error) {
	if utf8.RuneCountInString(r.Label) > 200 || !utf8.ValidString(r.Label) {
		return pay.Key{}, "", &pay.InputError{Field: "label", Reason: "at most 200 characters"}
	}
	if r.OrganizationID != "" && !validOrganizationID(r.OrganizationID) {
		return pay.Key{}, "", &pay.InputError{Field: "organization_id", Reason: "1 to 200 visible characters"}
	}
	if err := checkPolicy(r.Policy); err != nil {
		return pay.Key{}, "", err
	}
	own, err := b.begun(nil, r.Policy)
	if err != nil {
		return pay.Key{}, "", err
	}
	secret := r.Secret
	if secret == "" {
		secret = generateSecret()
	} else if !pay.ValidSecret(secret) {
		return pay.Key{}, "", &pay.InputError{Field: "key", Reason: "8 to 256 characters of A-Z a-z 0-9 . _ ~ + / = -"}
	}
	id, err := uuid.NewV7()
	if err != nil {
		return pay.Key{}, "", fmt.Errorf("naming a key: %w", err)
	}
	k, err := b.store.CreateKey(ctx, pay.NewKey{
		Key: pay.Key{
			ID: id.String(), Label: r.Label, OrganizationID: r.OrganizationID,
			Created: b.now().UTC(), Policy: own, Operator: r.Operator, Exec: r.Exec, Parent: r.Parent,
		},
		Secret: secret, Plan: r.Plan, Plans: b.plans,
	})
	if err == nil {
		b.keyCreated()
	}
	return k, secret, err
}

// Children lists the keys that were made with a key as their parent, oldest first.
func (b *Books) Children(ctx context.Context, k pay.Key) (children []pay.Key, err error) {
	if !k.HasChildren {
		return nil, nil
	}
	for after := k.ID; ; { // a child is younger
		page, err := b.reader.ListKeys(ctx, after, listPage)
		if err != nil {
			return nil, err
		}
		for _, child := range page {
			if after = child.ID; child.Parent == k.ID {
				children = append(children, child)
			}
		}
		if len(page) < listPage {
			return children, nil
		}
	}
}

func validOrganizationID(s string) bool {
	if !utf8.ValidString(s) || utf8.RuneCountInString(s) > 200 {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f || r == utf8.RuneError }) < 0
}

// generateSecret makes a key of 256 random bits.
func generateSecret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return pay.KeyPrefix + base64.RawURLEncoding.EncodeToString(b[:])
}
