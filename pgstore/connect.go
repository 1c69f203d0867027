package pgstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/purserpay/purser/internal/vault"
)

// Errors of connecting. They have no part of a password.
var (
	// ErrURL: the URL of the database cannot be read.
	ErrURL = errors.New("the URL of the database cannot be read: write it as postgres://USER:PASSWORD@HOST:5432/DATABASE")
	// ErrUnreachable: the database did not answer in time.
	ErrUnreachable = errors.New("the database cannot be reached")
	// ErrTLS: the server that answers does not prove that it is the database.
	ErrTLS = errors.New("the database does not prove who it is: name the file of its authority in sslrootcert, or sslmode=disable where nothing else can reach the network")
	// ErrRefused: the database does not let this user in.
	ErrRefused = errors.New("the database refuses the user or the password")
	// ErrForeign: the database has tables of another program.
	ErrForeign = errors.New("the database has tables of another program: give purser a database or a schema of its own")
	// ErrPrivileges: the user may not do what a store needs.
	ErrPrivileges = errors.New("the user of the database lacks privileges: it must own the database, or be granted USAGE and CREATE on the schema")
)

const (
	connectTries = time.Second     // between two tries to connect
	connectLimit = 5 * time.Second // of one try
)

// parse reads the URL of a database. Where neither the URL nor PGSSLMODE says how to protect the way
// to another machine, the server must prove its name with a certificate (sslmode=verify-full).
// libpq's own default would fall back to plain text, for which an attacker on the way can ask.
func parse(databaseURL string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		return nil, ErrURL // the error may show a password
	}
	if os.Getenv("PGSSLMODE") != "" || sslMode.MatchString(databaseURL) || isLocal(config.ConnConfig) {
		return config, nil
	}
	switch {
	case !strings.HasPrefix(databaseURL, "postgres://") && !strings.HasPrefix(databaseURL, "postgresql://"):
		databaseURL += " sslmode=verify-full"
	case strings.Contains(databaseURL, "?"):
		databaseURL += "&sslmode=verify-full"
	default:
		databaseURL += "?sslmode=verify-full"
	}
	if config, err = pgxpool.ParseConfig(databaseURL); err != nil {
		return nil, ErrURL
	}
	return config, nil
}

// sslMode finds the part of a URL, or of a list of key=value pairs, that says how to protect the way.
var sslMode = regexp.MustCompile(`(^|[?&\s])sslmode\s*=`)

// isLocal reports whether all hosts of a configuration are this machine.
func isLocal(config *pgx.ConnConfig) bool {
	local := func(host string) bool {
		address, err := netip.ParseAddr(host)
		return strings.HasPrefix(host, "/") || host == "localhost" || err == nil && address.Unmap().IsLoopback()
	}
	return local(config.Host) && !slices.ContainsFunc(config.Fallbacks, func(f *pgconn.FallbackConfig) bool { return !local(f.Host) })
}

// Place names the database that a URL leads to, for people: host, port, database, user and schema. It
// has no password.
func Place(databaseURL string) (string, error) {
	pool, err := parse(databaseURL)
	if err != nil {
		return "", err
	}
	c := pool.ConnConfig
	place, query := url.URL{Scheme: "postgres", User: url.User(c.User), Path: "/" + c.Database}, url.Values{}
	if port := strconv.Itoa(int(c.Port)); strings.HasPrefix(c.Host, "/") {
		query.Set("host", c.Host)
		query.Set("port", port)
	} else {
		place.Host = net.JoinHostPort(c.Host, port)
	}
	if schema := c.RuntimeParams["search_path"]; schema != "" {
		query.Set("search_path", schema)
	}
	place.RawQuery = query.Encode()
	return place.String(), nil
}

// Connect opens a store as Open does. It waits for a database that starts as well, patience at most, and
// ten times as long for one that takes connections and does not answer. Its errors tell people what to do;
// those of this file can be told apart.
func Connect(ctx context.Context, o Options, patience time.Duration) (*DB, error) {
	config, err := parse(o.URL)
	if err != nil {
		return nil, err
	}
	settle(config.ConnConfig)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	began, told := time.Now(), false
	for {
		d, err := (*DB)(nil), tryOnce(ctx, config.ConnConfig, foreign)
		if err == nil {
			d, err = open(ctx, o)
		}
		most := patience
		if hangs(err) {
			most *= 10
		}
		if err == nil || !comes(err) || ctx.Err() != nil || time.Since(began) > most {
			return d, explain(err)
		}
		if !told {
			o.Logger.WarnContext(ctx, "waiting for the database", "error", err, "for", most)
			told = true
		}
		select {
		case <-time.After(connectTries):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// hangs reports whether a database took a connection, or a question, and did not answer.
func hangs(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || downClass(err) == DownHangs
}

// tryOnce connects, and looks whether the connection keeps its session. Then it runs a further check.
func tryOnce(ctx context.Context, config *pgx.ConnConfig, further func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	c, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	if err = keepsSessions(ctx, config, c); err == nil {
		err = further(ctx, c)
	}
	return errors.Join(err, c.Close(context.WithoutCancel(ctx)))
}

// foreign reports tables of another program: ErrForeign. The version is read before the tables, because
// another node may be making them.
func foreign(ctx context.Context, c *pgx.Conn) error {
	version := int64(0)
	err := c.QueryRow(ctx, `SELECT max(version_id) FROM goose_db_version WHERE is_applied`).Scan(&version)
	var missing *pgconn.PgError
	if err != nil && (!errors.As(err, &missing) || missing.Code != "42P01") {
		return err
	}
	if err != nil { // it will be made
		var may bool
		if err := c.QueryRow(ctx, `SELECT coalesce(has_schema_privilege(current_schema(), 'CREATE'), false)`).Scan(&may); err != nil || !may {
			return errors.Join(ErrPrivileges, err)
		}
	}
	rows, err := c.Query(ctx, `SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename`)
	if err != nil {
		return err
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	own := slices.Contains(tables, "settings") && slices.Contains(tables, "operations")
	if own && slices.Contains(tables, gooseTable) || version == 0 && !slices.ContainsFunc(tables, func(t string) bool { return t != gooseTable }) {
		return nil
	}
	if len(tables) > 5 {
		tables = append(tables[:5], "…")
	}
	return fmt.Errorf("%w (it has %s)", ErrForeign, strings.Join(tables, ", "))
}

// gooseTable has the version of the schema.
const gooseTable = "goose_db_version"

// comes reports whether a database may answer soon that has failed now: it starts, or is too busy.
func comes(err error) bool {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused.Code == "57P03" || refused.Code == "53300"
	}
	var connecting *pgconn.ConnectError
	return !unproven(err) && (errors.As(err, &connecting) || hangs(err) || downClass(err) == DownAway)
}

// unproven reports whether a connection failed because the server did not prove its name.
func unproven(err error) bool {
	_, bad := errors.AsType[*tls.CertificateVerificationError](err)
	var connecting *pgconn.ConnectError
	return bad || errors.As(err, &connecting) && strings.Contains(err.Error(), "server refused TLS connection")
}

// explain turns what the database or the driver says into words for people.
func explain(err error) error {
	var refused *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, vault.ErrWrongMasterKey):
		return fmt.Errorf("%w: all nodes of one database need the same one. Copy master.key of the first node here, or set PURSER_MASTER_KEY on all", err)
	case errors.Is(err, ErrPooler):
		return ErrPooler
	case errors.Is(err, ErrNewer):
		return fmt.Errorf("%w: a newer purser uses it; run that one", err)
	case unproven(err):
		return fmt.Errorf("%w: %w", ErrTLS, err)
	case !errors.As(err, &refused):
		if comes(err) {
			return fmt.Errorf("%w: %w", ErrUnreachable, err)
		}
		return err
	}
	switch refused.Code {
	case "08P01":
		if strings.Contains(refused.Message, "startup parameter") {
			return fmt.Errorf("a pooler before the database refuses what the URL sets: %s", refused.Message)
		}
	case "28P01", "28000":
		return fmt.Errorf("%w: %s", ErrRefused, refused.Message)
	case "42501":
		return fmt.Errorf("%w: %s", ErrPrivileges, refused.Message)
	case "57P03", "53300":
		return fmt.Errorf("%w: %s", ErrUnreachable, refused.Message)
	case "3D000":
		return fmt.Errorf("%w: %s; make it with CREATE DATABASE", ErrUnreachable, refused.Message)
	}
	return err
}
