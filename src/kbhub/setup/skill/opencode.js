// <!-- Written by `kbhub setup --hooks`, which keeps it up to date; without this line it leaves the file alone. -->
// Runs kbhub's hooks in opencode 1.18.29 and later, and nothing in version 2. Whatever fails is silence.
import { spawn } from "node:child_process"

const COMMAND = ["kbhub"]
const TOOLS = new Set(["apply_patch", "bash", "edit", "patch", "read", "write"])

const run = (event, input, waits = true) =>
  new Promise((resolve, reject) => {
    const how = waits ? { timeout: 5000 } : { detached: true }
    const stdio = ["pipe", waits ? "pipe" : "ignore", "ignore"]
    const words = [...COMMAND.slice(1), "hook", event, "--client", "opencode"]
    const child = spawn(COMMAND[0], words, { cwd: input.cwd, stdio, windowsHide: true, ...how })
    let text = ""
    child.stdout?.on("data", (data) => (text += data))
    child.on("error", reject)
    child.on("close", () => resolve(text))
    child.stdin.on("error", reject)
    child.stdin.end(JSON.stringify(input))
    if (!waits) child.unref()
  })
    .then((text) => JSON.parse(text).hookSpecificOutput.additionalContext)
    .catch(() => "")

async function server({ directory }) {
  const begins = new Map() // session → why it begins, until its first message; then empty
  const subagents = new Set()
  const said = new Set() // sessions with a prompt since they were last idle
  const sent = (session_id, more) => ({ session_id, cwd: directory, ...more })
  return {
    event: async ({ event }) => {
      const { sessionID, info } = event.properties ?? {}
      if (event.type === "session.created") begins.set(info.id, "startup")
      if (event.type === "session.created" && info.parentID) subagents.add(info.id)
      if (event.type === "session.compacted") begins.set(sessionID, "compact")
      if (event.type === "session.idle" && said.delete(sessionID)) run("session-end", sent(sessionID), false)
    },
    "chat.message": async ({ sessionID }, { message, parts }) => {
      const source = begins.get(sessionID) ?? "resume"
      const inner = subagents.has(sessionID)
      begins.set(sessionID, "")
      const texts = []
      if (source) texts.push(await run(inner ? "subagent-start" : "session-start", sent(sessionID, { source })))
      if (!inner) {
        said.add(sessionID)
        const prompt = parts.filter((part) => part.type === "text" && !part.synthetic).map((part) => part.text)
        texts.push(await run("prompt", sent(sessionID, { prompt: prompt.join("\n") })))
      }
      const text = texts.filter(Boolean).join("\n")
      const id = `${parts.at(-1)?.id}k` // after the others
      if (text) parts.push({ id, sessionID, messageID: message.id, type: "text", text, synthetic: true })
    },
    "tool.execute.after": async ({ tool, sessionID, args }, output) => {
      if (!TOOLS.has(tool) || typeof output?.output !== "string") return
      const text = await run("tool", sent(sessionID, { tool_name: tool, tool_input: args }))
      if (text) output.output += `\n\n${text}`
    },
    "experimental.session.compacting": ({ sessionID }) => run("compact", sent(sessionID)),
  }
}

export default { id: "kbhub", server, setup() {} }
