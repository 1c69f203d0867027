package approvals

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

// LinkPath is the path of the page that links lead to, without the id.
const LinkPath = "/dashboard/approve/"

// ErrLink: the link is of another approval, has expired, was cut off, or was never made.
var ErrLink = errors.New("the link does not work")

// Secrets keep what links are signed with; internal/books implements it.
type Secrets interface {
	ApprovalLinkSecret(ctx context.Context) ([]byte, error)
	// OperatorEpoch changes when an operator signs out everywhere. Links of another epoch do not work.
	OperatorEpoch(ctx context.Context) (string, error)
}

// Links makes and checks the links by which one approval is answered without a session. A link works
// until the approval expires. It is safe for concurrent use.
type Links struct {
	Origin  string // of the dashboard, such as https://purser.example.com
	Secrets Secrets
	Clock   pay.Clock
}

// Make returns the link of an approval. The token is behind the #: browsers send no such part, so that
// no log, no proxy and no program that previews the link gets it.
func (l Links) Make(ctx context.Context, a pay.Approval) (string, error) {
	end := make([]byte, 8)
	binary.BigEndian.PutUint64(end, uint64(a.Expires.Unix())) //nolint:gosec // expiries are later than 1970
	sum, err := l.sum(ctx, a.ID, end)
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(l.Origin, "/") + LinkPath + a.ID + "#" + base64.RawURLEncoding.EncodeToString(append(end, sum...)), nil
}

// Check reports whether a token, or a whole link, is that of an approval: ErrLink, or the store's
// errors. It does not read the approval.
func (l Links) Check(ctx context.Context, approvalID, token string) error {
	token = strings.TrimSpace(token)
	raw, err := base64.RawURLEncoding.DecodeString(token[strings.LastIndex(token, "#")+1:])
	if err != nil || len(raw) != 8+sha256.Size {
		return ErrLink
	}
	sum, err := l.sum(ctx, approvalID, raw[:8])
	if err != nil {
		return err
	}
	end := time.Unix(int64(binary.BigEndian.Uint64(raw)), 0) //nolint:gosec // a forged one fails the next comparison
	if !hmac.Equal(raw[8:], sum) || !l.Clock().Before(end) {
		return ErrLink
	}
	return nil
}

func (l Links) sum(ctx context.Context, approvalID string, end []byte) ([]byte, error) {
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
