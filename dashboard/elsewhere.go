package dashboard

import "strings"

// setting is something about this purser that pages do not change, with the places that do.
type setting struct {
	Name, Now string
	Path      string   // a page that changes it for one key; "": none
	Options   []option // of the configuration: their names, with their variables as ID
	Commands  []string
}

// elsewhere lists what operators set, and where. Its names are those of docs/configuration.md.
func (d *dashboard) elsewhere() []setting {
	none := func(text string) string {
		if text == "" {
			return "none"
		}
		return cut(text, maxText)
	}
	low := "off"
	if d.LowBalance != nil {
		low = amountOf(*d.LowBalance, false, currency).String()
	}
	return []setting{
		{Name: "Limits of one key", Path: "/dashboard/keys", Commands: []string{"purser limits KEY"}},
		{Name: "Limits of keys without their own", Options: variables("max_payment", "daily_budget", "monthly_budget", "per_minute", "price_guard")},
		{Name: "Payments that wait for a person", Options: variables("require_approval_above", "require_approval_new_hosts", "approval_wait", "approval_expiry")},
		{Name: "Who signs in", Now: none(d.Issuer), Options: variables("oidc_issuer", "oidc_operators", "oidc_approvers", "oidc_viewers"), Commands: []string{"purser dashboard"}},
		{Name: "Address for people", Now: none(d.PublicURL), Options: variables("public_url")},
		{Name: "Balance that is low", Now: low, Options: variables("low_balance")},
		{Name: "Notices", Options: variables("webhooks", "webhook_kinds", "mail_to", "smtp_url"), Commands: []string{"purser webhooks"}},
		{Name: "Connection to the chain", Options: variables("rpc_url"), Commands: []string{"purser rpc"}},
		{Name: "Plans of organizations", Options: variables("plans", "upgrade_url"), Commands: []string{"purser organizations"}},
		{Name: "How long payments are kept", Options: variables("retain"), Commands: []string{"purser archive"}},
		{Name: "Backups, and keys that guard secrets", Commands: []string{"purser backup", "purser rotate"}},
	}
}

// variables names options with their variables.
func variables(names ...string) (list []option) {
	for _, name := range names {
		list = append(list, option{ID: "PURSER_" + strings.ToUpper(name), Name: name})
	}
	return list
}
