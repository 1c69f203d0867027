// An OpenID Connect provider: oidc-provider with its own login form, which takes any name with any password.
// Environment: PORT, CLIENT_ID, CLIENT_SECRET, REDIRECT_URI. Prints one line of JSON when it listens; ends with stdin.

import Provider from "oidc-provider";

const { PORT, CLIENT_ID, CLIENT_SECRET, REDIRECT_URI } = process.env;
const issuer = `http://127.0.0.1:${PORT}`;

// It warns of what is for development only, which this is.
console.warn = () => {};
console.info = () => {};

const provider = new Provider(issuer, {
  clients: [{
    client_id: CLIENT_ID,
    client_secret: CLIENT_SECRET,
    redirect_uris: [REDIRECT_URI],
    grant_types: ["authorization_code"],
    response_types: ["code"],
  }],
  cookies: { keys: ["a key for tests"] },
  pkce: { required: () => true },
  claims: { openid: ["sub"], profile: ["name"], email: ["email", "email_verified"] },
  ttl: { Interaction: 3600, Session: 3600, Grant: 3600, AccessToken: 600, IdToken: 600 },
  findAccount: (_ctx, sub) => ({
    accountId: sub,
    claims: () => ({ sub, name: `${sub[0].toUpperCase()}${sub.slice(1)} Example`, email: `${sub}@example.com`, email_verified: true }),
  }),
  // Nobody is asked for consent to what the only client of this provider wants.
  async loadExistingGrant(ctx) {
    const { client, session, provider: { Grant }, params } = ctx.oidc;
    const grant = new Grant({ clientId: client.clientId, accountId: session.accountId });
    grant.addOIDCScope(params.scope);
    await grant.save();
    return grant;
  },
});

const server = provider.listen(Number(PORT), "127.0.0.1", () => console.log(JSON.stringify({ url: issuer })));
server.keepAliveTimeout = 0; // a connection that ends while a request is on its way fails that
server.on("error", (err) => {
  console.error(err.message);
  process.exit(1);
});
const end = () => process.exit(0);
process.on("SIGTERM", end);
process.stdin.on("end", end).on("close", end).resume();
