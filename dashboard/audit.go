package dashboard

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
)

const (
	auditRows = 100
	// maxValue bounds the shown text of a value before or after a change, in characters.
	maxValue = 400
)

type auditPage struct {
	Operator bool
	Entries  []auditRow
	Key      *link // whose changes these are; nil: all changes
	NextPath string
}

type auditRow struct {
	When          moment
	By, What      string
	Of            link // Path is empty when there is no page
	Before, After string
}

var actions = map[pay.Action]string{
	pay.ActionKeyCreate: "Key created", pay.ActionKeyPolicy: "Limits set", pay.ActionKeyLink: "Key linked", pay.ActionKeyAdopt: "Key taken over", pay.ActionKeyPause: "Key paused",
	pay.ActionKeyResume: "Key resumed", pay.ActionKeyRevoke: "Key revoked", pay.ActionWalletCreate: "Wallet created", pay.ActionWalletDelete: "Wallet deleted",
	pay.ActionKeyReissue: "Key reissued", pay.ActionKeyEndOverlap: "Old secret ended", pay.ActionWalletImport: "Wallet imported", pay.ActionWalletExport: "Wallet exported", pay.ActionWalletRestore: "Wallet restored",
	pay.ActionWalletShare: "Wallet shared with the key", pay.ActionWalletUnshare: "Wallet taken back from the key", pay.ActionDeployment: "Wallet became the deployment's",
	pay.ActionPlan: "Plan changed", pay.ActionPaymentResolve: "Payment resolved", pay.ActionPaymentCancel: "Payment canceled",
	pay.ActionWalletWithdraw: "Money withdrawn", pay.ActionWalletApprove: "Permit2 approved", pay.ActionPauseAll: "Everything paused",
	pay.ActionResumeAll: "Everything resumed", pay.ActionReconcileAccept: "Risk of a restore accepted", pay.ActionRPCTrust: "RPC trusted",
	pay.ActionApprovalApprove: "Payment approved", pay.ActionApprovalDeny: "Payment denied",
	pay.ActionDataKeyRotate: "Data key rotated", pay.ActionMasterKeyRotate: "Master key rotated",
}

// audit serves GET /dashboard/audit. ?key= selects one key's changes. ?before= is the number of the
// last entry on the previous page.
func (d *dashboard) audit(r *http.Request, v visit) (answer, error) {
	asked := r.URL.Query()
	q := pay.AuditQuery{Limit: auditRows + 1}
	if text := asked.Get("before"); text != "" {
		var err error
		if q.Before, err = strconv.ParseUint(text, 10, 63); err != nil || q.Before == 0 {
			return answer{}, errNotFound
		}
	}
	p := auditPage{Operator: v.operator()}
	keyID := asked.Get("key")
	if keyID != "" {
		k, err := d.Books.KeyIn(r.Context(), v.scope(), keyID)
		if err != nil {
			return answer{}, err
		}
		q.KeyID = keyID
		p.Key = &link{label(k), keyPath(k.ID)}
	}
	list, err := d.Books.AuditIn(r.Context(), v.scope(), q)
	if err != nil {
		return answer{}, err
	}
	keys, err := d.Books.KeysIn(r.Context(), v.scope())
	if err != nil {
		return answer{}, err
	}
	if len(list) > auditRows {
		list = list[:auditRows]
		next := url.Values{"before": {strconv.FormatUint(list[auditRows-1].Number, 10)}}
		if keyID != "" {
			next.Set("key", keyID)
		}
		p.NextPath = "/dashboard/audit?" + next.Encode()
	}
	named := names(keys)
	for _, e := range list {
		p.Entries = append(p.Entries, auditRowOf(e, v, named))
	}
	return answer{page: "audit", title: "Changes", nav: "/dashboard/settings", body: p}, nil
}

func auditRowOf(e pay.AuditEntry, v visit, keys map[string]string) auditRow {
	row := auditRow{When: momentOf(e.At, inTable), What: actions[e.Action], Before: valueText(e.Old), After: valueText(e.New)}
	if row.What == "" {
		row.What = string(e.Action)
	}
	row.By = byOf(v, e.By)
	switch {
	case e.PaymentID != "":
		row.Of = link{"Payment " + tail(e.PaymentID), "/dashboard/payments/" + e.PaymentID}
	case e.WalletID != "" && e.Action != pay.ActionWalletDelete && e.Action != pay.ActionWalletShare && e.Action != pay.ActionWalletUnshare:
		row.Of = link{"Wallet " + tail(e.WalletID), walletPath(e.WalletID)}
	case e.WalletID != "":
		row.Of = link{Name: "Wallet " + tail(e.WalletID)}
	case e.KeyID != "":
		row.Of = link{keys[e.KeyID], keyPath(e.KeyID)}
	case v.operator() && e.OrganizationID == "":
		row.Of = link{Name: "purser"}
	case v.operator():
		row.Of = link{Name: "Organization " + tail(e.OrganizationID)}
	default:
		row.Of = link{Name: "Your organization"}
	}
	return row
}

// valueText returns a JSON object as text, without the members that the row already shows.
func valueText(object json.RawMessage) string {
	var members map[string]any
	if json.Unmarshal(object, &members) != nil {
		return ""
	}
	return cut(wordsOf(members), maxValue)
}

// wordsOf writes members with their values on one line, sorted by name.
func wordsOf(members map[string]any) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		switch name {
		case "organization_id", "at", "revoked_at", "unresolved": // the organization is the visitor's, and the entry has the time
			continue
		}
		words := strings.ReplaceAll(name, "_", " ")
		switch value := members[name].(type) {
		case nil:
		case map[string]any:
			if inner := wordsOf(value); inner != "" {
				words += " (" + inner + ")"
			}
			parts = append(parts, words)
		case string:
			if amount, err := money.Parse(value); err == nil && capNames[name] {
				value = amountOf(amount, false, currency).String()
			}
			if value != "" {
				parts = append(parts, words+" "+value)
			}
		default:
			parts = append(parts, strings.TrimSpace(fmt.Sprint(words, " ", value)))
		}
	}
	return strings.Join(parts, ", ")
}

// capNames lists the members that are amounts in the smallest unit.
var capNames = map[string]bool{"max_payment": true, "hourly_budget": true, "daily_budget": true, "weekly_budget": true, "monthly_budget": true, "require_approval_above": true}
