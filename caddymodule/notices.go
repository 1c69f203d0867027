package caddymodule

// No Caddy here: it reads where notices are sent to.

import (
	"cmp"
	"context"
	"net/netip"
	"time"

	"github.com/purserpay/purser/dashboard/session"
	"github.com/purserpay/purser/internal/metrics"
	"github.com/purserpay/purser/internal/notices"
	"github.com/purserpay/purser/internal/setting"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// NoticeOptions say whom purser tells of budgets, approvals, disputes and the like, and how.
type NoticeOptions struct {
	// Webhooks is a reference to the addresses that notices are posted to, separated by commas, each
	// with slack+, discord+ or teams+ before it unless the host tells. Default: {env.PURSER_WEBHOOKS}.
	Webhooks string `json:"webhooks,omitempty"`
	// WebhooksFile is their file. Default: {env.PURSER_WEBHOOKS_FILE}.
	WebhooksFile string `json:"webhooks_file,omitempty"`
	// WebhookSecret is a reference to the secret that signs posts by Standard Webhooks, such as
	// whsec_…; the new and the old one during a change. Default: {env.PURSER_WEBHOOK_SECRET}, else unsigned.
	WebhookSecret string `json:"webhook_secret,omitempty"`
	// WebhookSecretFile is its file. Default: {env.PURSER_WEBHOOK_SECRET_FILE}.
	WebhookSecretFile string `json:"webhook_secret_file,omitempty"`
	// WebhookKinds lists the kinds of notices that are sent, by webhook and mail, or all. Default:
	// {env.PURSER_WEBHOOK_KINDS}, else all but budget-50, declined and new-host.
	WebhookKinds string `json:"webhook_kinds,omitempty" form:"list"`
	// SMTPURL is a reference to the mail server, such as smtp://user:password@mail.example.com:587 or
	// smtps://…; smtp needs STARTTLS, but on loopback or with ?tls=off. Default: {env.PURSER_SMTP_URL}.
	SMTPURL string `json:"smtp_url,omitempty"`
	// SMTPURLFile is its file. Default: {env.PURSER_SMTP_URL_FILE}.
	SMTPURLFile string `json:"smtp_url_file,omitempty"`
	// MailFrom is the sender of mail. Default: {env.PURSER_MAIL_FROM}.
	MailFrom string `json:"mail_from,omitempty"`
	// MailTo lists the recipients of mail, separated by commas. Default: {env.PURSER_MAIL_TO}.
	MailTo string `json:"mail_to,omitempty" form:"list"`
	// LowBalance is the balance in USDC below which people are told of a wallet, and the dashboard marks
	// it, or off. Default: {env.PURSER_LOW_BALANCE}, else off.
	LowBalance string `json:"low_balance,omitempty"`
}

var (
	webhooksOption      = setting.New("webhooks", "PURSER_WEBHOOKS", "")
	webhookSecretOption = setting.New("webhook_secret", "PURSER_WEBHOOK_SECRET", "")
	smtpOption          = setting.New("smtp_url", "PURSER_SMTP_URL", "")
)

// noticeSettings are the resolved NoticeOptions.
type noticeSettings struct {
	options notices.Options
	low     *policy.Cap
}

// areReferences refuses secrets themselves in a configuration.
func (o NoticeOptions) areReferences() error {
	return cmp.Or(webhooksOption.IsReference(o.Webhooks), webhookSecretOption.IsReference(o.WebhookSecret), smtpOption.IsReference(o.SMTPURL))
}

// resolve reads the options. Its errors repeat no address and no secret.
func (o NoticeOptions) resolve(s *settings) error {
	t := noticeSettings{options: notices.Options{PublicURL: s.publicURL}}
	urls, err := webhooksOption.Secret(o.Webhooks, o.WebhooksFile)
	if err != nil {
		return err
	}
	for _, raw := range setting.Split(urls) {
		d, err := notices.ParseWebhook(raw)
		if err != nil {
			return webhooksOption.Errorf("%w", err)
		}
		t.options.Destinations = append(t.options.Destinations, d)
	}
	secret, err := webhookSecretOption.Secret(o.WebhookSecret, o.WebhookSecretFile)
	if err != nil {
		return err
	}
	if t.options.Signers, err = notices.ParseSecrets(setting.Split(secret)); err != nil {
		return webhookSecretOption.Errorf("%w", err)
	}
	kindsOption := setting.New("webhook_kinds", "PURSER_WEBHOOK_KINDS", "")
	kinds, err := kindsOption.Entries(o.WebhookKinds)
	if err != nil {
		return err
	}
	if t.options.Wants, err = notices.ParseKinds(kinds); err != nil {
		return kindsOption.Errorf("%w", err)
	}
	if err := o.resolveMail(&t); err != nil {
		return err
	}
	if t.low, err = setting.New("low_balance", "PURSER_LOW_BALANCE", "").Cap(o.LowBalance); err != nil {
		return err
	}
	allow, err := setting.New("allow_addresses", "PURSER_ALLOW_ADDRESSES", "").List("")
	for _, cidr := range allow {
		if prefix, err := netip.ParsePrefix(cidr); err == nil { // the proxy complains of others
			t.options.Guard.Allow = append(t.options.Guard.Allow, prefix.Masked())
		}
	}
	s.told = t
	return err
}

func (o NoticeOptions) resolveMail(t *noticeSettings) error {
	server, err := smtpOption.Secret(o.SMTPURL, o.SMTPURLFile)
	if err != nil {
		return err
	}
	from, err := setting.New("mail_from", "PURSER_MAIL_FROM", "").Value(o.MailFrom)
	if err != nil {
		return err
	}
	to, err := setting.New("mail_to", "PURSER_MAIL_TO", "").Value(o.MailTo)
	if err != nil {
		return err
	}
	if server == "" && from == "" && to == "" {
		return nil
	}
	d, err := notices.ParseMail(server, from, to)
	if err != nil {
		return smtpOption.Errorf("%w", err)
	}
	t.options.Destinations = append(t.options.Destinations, d)
	return nil
}

// approvalLinks makes and checks the links of this configuration. Before it serves there are no books.
func (t *tenant) approvalLinks() session.ApprovalLinks {
	return session.ApprovalLinks{Origin: t.app.settings.publicURL, Secrets: t.books, Clock: time.Now}
}

// openNotices makes the sender of this configuration, and says what the payer tells.
func (t *tenant) openNotices(o *pay.Options) error {
	s := t.app.settings.told
	n := s.options
	n.Store, n.Logger, n.Observer = t.home.store, t.app.log.With("part", "notices"), metrics.Notices{}
	n.ApprovalLink = func(ctx context.Context, id string) (string, error) {
		return t.approvalLinks().Of(ctx, t.home.store, id)
	}
	t.notices = notices.New(n)
	if len(n.Destinations) > 0 {
		o.Telling = pay.Telling{On: true, LowBalance: s.low.Max(), Wake: t.notices.Wake}
	}
	return t.notices.Prepare(t.app.ctx)
}
