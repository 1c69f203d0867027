package session

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
	"time"

	"github.com/purserpay/purser/pay"
)

// ErrApprovalLink: the link is of another approval, has expired, was cut off, or was never made.
var ErrApprovalLink = errors.New("the link does not work")

// ApprovalSecrets keep what links are signed with; internal/books implements it.
type ApprovalSecrets interface {
	ApprovalLinkSecret(ctx context.Context) ([]byte, error)
	// OperatorEpoch changes when an operator signs out everywhere. Links of another epoch do not work.
	OperatorEpoch(ctx context.Context) (string, error)
}

// ApprovalLinks makes and checks the links by which one approval is answered without a session. A link
// works until the approval expires. It is safe for concurrent use.
type ApprovalLinks struct {
	Origin  string // of the dashboard, such as https://purser.example.com; "": no link works
	Secrets ApprovalSecrets
	Clock   pay.Clock
}

// Of returns the link of an approval; "" if it takes no answer any more, or without an Origin.
func (l ApprovalLinks) Of(ctx context.Context, store interface {
	Approval(ctx context.Context, id string) (pay.Approval, error)
}, id string,
) (string, error) {
	if l.Origin == "" {
		return "", nil
	}
	a, err := store.Approval(ctx, id)
	if err != nil || a.State(l.Clock()) != pay.ApprovalPending {
		return "", err
	}
	return l.Make(ctx, a)
}

// Make returns the link of an approval. The token is behind the #: browsers send no such part, so that
// no log, no proxy and no program that previews the link gets it.
func (l ApprovalLinks) Make(ctx context.Context, a pay.Approval) (string, error) {
	end := make([]byte, 8)
	binary.BigEndian.PutUint64(end, uint64(a.Expires.Unix())) //nolint:gosec // expiries are later than 1970
	sum, err := l.sum(ctx, a.ID, end)
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(l.Origin, "/") + ApprovalLink + a.ID + "#" + base64.RawURLEncoding.EncodeToString(append(end, sum...)), nil
}

// Check reports whether a token, or a whole link, is that of an approval: ErrApprovalLink, or the store's
// errors. It does not read the approval.
func (l ApprovalLinks) Check(ctx context.Context, approvalID, token string) error {
	if l.Origin == "" {
		return ErrApprovalLink
	}
	token = strings.TrimSpace(token)
	raw, err := base64.RawURLEncoding.DecodeString(token[strings.LastIndex(token, "#")+1:])
	if err != nil || len(raw) != 8+sha256.Size {
		return ErrApprovalLink
	}
	sum, err := l.sum(ctx, approvalID, raw[:8])
	if err != nil {
		return err
	}
	end := time.Unix(int64(binary.BigEndian.Uint64(raw)), 0) //nolint:gosec // a forged one fails the next comparison
	if !hmac.Equal(raw[8:], sum) || !l.Clock().Before(end) {
		return ErrApprovalLink
	}
	return nil
}

func (l ApprovalLinks) sum(ctx context.Context, approvalID string, end []byte) ([]byte, error) {
	secret, err := l.Secrets.ApprovalLinkSecret(ctx)
	if err != nil {
		return nil, err
	}
	epoch, err := l.Secrets.OperatorEpoch(ctx)
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, secret)
	for _, part := range []string{"purser approval link 1", epoch, approvalID, string(end)} {
		_, _ = mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		_, _ = mac.Write([]byte(part))
	}
	return mac.Sum(nil), nil
}
